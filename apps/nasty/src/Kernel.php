<?php

declare(strict_types=1);

namespace Nasty;

/** Stands for a framework's kernel: services by name, and who is logged in. */
#[\AllowDynamicProperties]
final class Kernel
{
    public int $served = 0;
    public ?string $user = null;
    /** @var array<string, mixed> */
    public array $services = ['clock' => 'boot'];
    /** @var list<callable> */
    public array $listeners = [];
    public ?\Closure $lazy = null;

    public function __construct()
    {
        $this->lazy = function (): int {
            static $calls = 0;
            $this->services['called'] = ++$calls;

            return $calls;
        };
    }

    public function __destruct()
    {
        // Runs at the end of each request, as under php-fpm; what it does must not last either.
        ++$this->served;
        self::$ended = true;
    }

    public static bool $ended = false;
}
