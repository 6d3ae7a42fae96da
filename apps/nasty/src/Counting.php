<?php

declare(strict_types=1);

namespace Nasty;

/** Statics of a trait: each class that uses it has its own. */
trait Counting
{
    public static int $inTrait = 0;

    public static function countInTrait(): int
    {
        static $count = 0;

        return ++$count;
    }
}
