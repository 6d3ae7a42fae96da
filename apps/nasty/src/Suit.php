<?php

declare(strict_types=1);

namespace Nasty;

/** An enum has no static properties; a static of its method is the place left. */
enum Suit: string
{
    case Hearts = 'h';
    case Spades = 's';

    public static function count(): int
    {
        static $count = 0;

        return ++$count;
    }

    /** @param array<string, mixed> $add */
    public function memory(array $add = []): array
    {
        static $memory = [];
        $memory = [...$memory, ...$add];

        return $memory;
    }
}
