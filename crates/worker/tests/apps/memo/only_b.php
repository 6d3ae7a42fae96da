<?php

declare(strict_types=1);

namespace Memo;

const PREFIX = 'namespaced of b';

class Theme
{
    public const NAME = 'theme of b';

    public static function name(): string
    {
        return static::class . ' ' . self::NAME;
    }
}

function greeting_b(): string
{
    return 'greeting of b';
}
