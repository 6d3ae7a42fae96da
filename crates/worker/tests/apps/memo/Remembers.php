<?php

declare(strict_types=1);

namespace Memo;

trait Remembers
{
    private static ?string $ofTrait = null;

    public static function ofTrait(): string
    {
        static $again = null;
        self::$ofTrait ??= user();
        $again ??= self::$ofTrait;

        return self::$ofTrait . $again;
    }
}
