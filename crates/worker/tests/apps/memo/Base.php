<?php

declare(strict_types=1);

namespace Memo;

abstract class Base
{
    public static ?string $inherited = null;
    protected static array $byClass = [];

    public static function late(): string
    {
        return static::$byClass[static::class] ??= user();
    }

    public static function inherited(): string
    {
        return static::$inherited ??= user();
    }
}
