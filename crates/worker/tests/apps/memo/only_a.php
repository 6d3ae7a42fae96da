<?php

declare(strict_types=1);

namespace Memo;

class Theme
{
    public const NAME = 'theme of a';

    public static function name(): string
    {
        return static::class . ' ' . self::NAME;
    }
}

const SUFFIX = 'namespaced of a';

function greeting_a(): string
{
    return 'greeting of a';
}
