<?php

declare(strict_types=1);

namespace Hearth\Tests;

/**
 * Stands for the host in tests: a queue of requests, each as its `$_SERVER`.
 */
final class FakeHost
{
    /** @var list<array<string, string>> */
    private static array $requests = [];

    /** @var list<string> What happened, in order. */
    public static array $events = [];

    /** @param array<string, string> ...$requests */
    public static function start(array ...$requests): void
    {
        require_once __DIR__ . '/fixtures/native.php';
        $_SERVER['HEARTH_WORKER'] = '1';
        self::$requests = array_values($requests);
        self::$events = [];
    }

    public static function stop(): void
    {
        unset($_SERVER['HEARTH_WORKER']);
        self::$requests = [];
    }

    public static function serveNext(callable $handler): bool
    {
        $server = array_shift(self::$requests);
        if (null === $server) {
            self::$events[] = 'end';

            return false;
        }
        $_SERVER = $server;
        self::$events[] = 'request';
        try {
            $handler();
        } catch (RequestEnded) {
            self::$events[] = 'exit';
        }
        self::$events[] = 'complete';

        return true;
    }
}
