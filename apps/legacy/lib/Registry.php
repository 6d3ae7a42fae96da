<?php

/** Everything, for everybody. */
class Registry
{
    private static $values = [];
    public static $reads = 0;

    public static function set($name, $value)
    {
        self::$values[$name] = $value;
    }

    public static function get($name)
    {
        self::$reads++;

        return self::$values[$name] ?? null;
    }

    public static function names()
    {
        return implode(',', array_keys(self::$values));
    }
}
