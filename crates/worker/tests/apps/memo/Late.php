<?php

declare(strict_types=1);

namespace Memo;

/** Loaded by the first request, never by the boot. */
class Late extends Base
{
    use Remembers;

    public string $tenant = \TENANT_NAME;
    public int $number = \TENANT;
    public static string $default = \TENANT_NAME . '!';
    public static ?string $typed = null;
    private static ?self $instance = null;

    public const TENANT = \TENANT_NAME;

    public static function instance(): self
    {
        return self::$instance ??= new self(user());
    }

    public function __construct(public readonly string $user = \TENANT_NAME)
    {
    }

    public function inMethod(): string
    {
        static $user = null;

        return $user ??= user();
    }

    public static function defaults(): array
    {
        return [(new self())->tenant, (new self())->number, (new self())->user, self::$default, self::TENANT];
    }
}
