<?php

declare(strict_types=1);

namespace Nasty\Late;

const DECLARED_LATE = 1;

function declaredLate(): int
{
    static $calls = 0;

    return ++$calls;
}

final class DeclaredLate
{
    public static int $made = 0;

    public function __construct()
    {
        ++self::$made;
    }
}

$GLOBALS['lateGlobal'] = ($GLOBALS['lateGlobal'] ?? 0) + 1;

return $GLOBALS['lateGlobal'];
