<?php

declare(strict_types=1);

namespace Nasty;

final class Heir extends Ancestor
{
    use Counting;

    public const DERIVED = BOOTED_AT . '-derived';

    public static int $typed = 0;
    public static mixed $anything = null;
    public static string $derived = self::DERIVED;
    public int $instance = 1;
}
