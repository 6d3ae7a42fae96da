<?php

declare(strict_types=1);

namespace Nasty;

/** Readonly, yet with an object inside that is not. */
final class Frozen
{
    public function __construct(public readonly \ArrayObject $inside, public readonly int $number = 1)
    {
    }

    public function __clone(): void
    {
        $this->inside['cloned'] = true;
    }
}
