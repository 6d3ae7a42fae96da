<?php

/*
 * Statics of every kind. Each answer counts from one in a process that has seen nothing.
 */

declare(strict_types=1);

namespace Nasty;

function countInFunction(): int
{
    static $count = 0;

    return ++$count;
}

function &referenceToStatic(): array
{
    static $list = [];

    return $list;
}

return [
    'function' => static function (): void {
        echo countInFunction(), countInFunction();
    },
    'function reference' => static function (): void {
        $list = &referenceToStatic();
        $list[] = 'left';
        echo count(referenceToStatic());
    },
    'inherited method' => static function (): void {
        echo Heir::countInherited();
    },
    'trait method' => static function (): void {
        echo Heir::countInTrait();
    },
    'enum method' => static function (): void {
        echo Suit::count(), count(Suit::Hearts->memory(['user' . Suit::count() => 'alice']));
    },
    'closure of the boot' => static function (): void {
        echo (Booted::get()->counter)();
    },
    'bound closure of the boot' => static function (): void {
        echo (Booted::get()->kernel->lazy)();
    },
    'first-class callable' => static function (): void {
        $callable = countInFunction(...);
        echo $callable(), $callable();
    },
    'closure of the case' => static function (): void {
        static $count = 0;
        echo ++$count;
    },
    'typed property' => static function (): void {
        echo ++Heir::$typed;
    },
    'trait property' => static function (): void {
        echo ++Heir::$inTrait;
    },
    'inherited property' => static function (): void {
        Heir::$shared[] = 'left';
        echo count(Ancestor::$shared);
    },
    'property with an object' => static function (): void {
        echo Ancestor::$object === null ? 'none' : 'left';
        Ancestor::$object = new class {
            public string $user = 'alice';
        };
    },
    'property with a reference' => static function (): void {
        Heir::$anything ??= 0;
        $reference = &Heir::$anything;
        $GLOBALS['toStatic'] = &$reference;
        echo ++$reference;
    },
    'property with a generator' => static function (): void {
        Heir::$anything ??= (static function (): \Generator {
            try {
                yield from [1, 2, 3];
            } finally {
                echo 'finally';
            }
        })();
        echo Heir::$anything->current();
        Heir::$anything->next();
    },
    'property with itself inside' => static function (): void {
        $node = new \stdClass();
        $node->self = $node;
        Heir::$anything = [$node, &Heir::$shared];
        Heir::$shared[] = $node;
        echo count(Heir::$shared);
    },
    'property through reflection' => static function (): void {
        $property = new \ReflectionProperty(Kernel::class, 'ended');
        echo var_export($property->getValue(), true);
        $property->setValue(null, true);
    },
    'private property through a bound closure' => static function (): void {
        $change = \Closure::bind(static function (): int {
            $count = self::$instance->container['count'] ?? 0;
            self::$instance->container['count'] = ++$count;

            return $count;
        }, null, Booted::class);
        echo $change();
    },
    'constant expression' => static function (): void {
        Heir::$derived .= '!';
        echo Heir::$derived, ' ', Heir::DERIVED;
    },
    'statics of a late function' => static function (): void {
        require_once Booted::get()->folder . '/late/declares.php';
        echo \Nasty\Late\declaredLate();
    },
];
