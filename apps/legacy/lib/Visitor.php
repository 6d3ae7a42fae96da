<?php

/** The user of this request: found out once, kept in a static. */
class Visitor
{
    public static $current;
    private static $rights = [];

    public $name;
    public $seen = 0;

    public function __construct($name)
    {
        $this->name = $name;
    }

    public static function find()
    {
        if (self::$current === null) {
            self::$current = new self($_COOKIE['user'] ?? '');
        }
        self::$current->seen++;

        return self::$current;
    }

    public function may($what)
    {
        if (!isset(self::$rights[$what])) {
            self::$rights[$what] = $this->name === 'admin' || ($what === 'read' && $this->name !== 'banned');
        }

        return self::$rights[$what];
    }
}
