<?php

declare(strict_types=1);

namespace Nasty;

/** Writes a value down, to some depth, so that two processes can be compared: no addresses, no recursion. */
final class Describe
{
    private const DEPTH = 5;

    /** @var array<int, int> numbers of the objects already written, in order of appearance */
    private array $seen = [];

    public function value(mixed $value, int $depth = 0): string
    {
        return match (true) {
            is_object($value) => $this->object($value, $depth),
            is_array($value) => $this->array($value, $depth),
            is_resource($value) => get_resource_type($value) . '#' . get_resource_id($value),
            is_string($value) && strlen($value) > 200 => 'string(' . strlen($value) . ') ' . md5($value),
            default => get_debug_type($value) . ' ' . json_encode($value, JSON_PARTIAL_OUTPUT_ON_ERROR),
        };
    }

    /** @param array<mixed> $array */
    private function array(array $array, int $depth): string
    {
        if ($depth >= self::DEPTH) {
            return 'array(' . count($array) . ')';
        }
        $parts = [];
        foreach ($array as $key => $value) {
            $parts[] = $key . ': ' . $this->value($value, $depth + 1);
        }

        return '[' . implode(', ', $parts) . ']';
    }

    private function object(object $object, int $depth): string
    {
        $id = spl_object_id($object);
        $name = $object::class . '#' . $id;
        if (isset($this->seen[$id]) || $depth >= self::DEPTH) {
            return $name;
        }
        $this->seen[$id] = $id;
        if ($object instanceof \Closure) {
            $statics = (new \ReflectionFunction($object))->getStaticVariables();

            return $name . $this->array($statics, $depth);
        }
        if ($object instanceof \WeakMap || $object instanceof \SplObjectStorage) {
            return $name . '(' . count($object) . ')';
        }

        return $name . $this->array((array) $object, $depth);
    }
}
