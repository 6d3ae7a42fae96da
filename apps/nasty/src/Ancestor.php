<?php

declare(strict_types=1);

namespace Nasty;

/** Statics that a child shares, and a method whose static a child has for itself. */
abstract class Ancestor
{
    /** @var list<mixed> */
    public static array $shared = [];
    public static ?object $object = null;

    public static function countInherited(): int
    {
        static $count = 0;

        return ++$count;
    }
}
