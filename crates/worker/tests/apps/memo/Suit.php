<?php

declare(strict_types=1);

namespace Memo;

enum Suit: string
{
    public const TRUMP = \TENANT === 1 ? self::Hearts : self::Spades;

    case Hearts = 'h';
    case Spades = 's';

    public function owner(): string
    {
        static $owners = [];

        return $owners[$this->value] ??= user();
    }
}
