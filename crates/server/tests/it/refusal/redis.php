<?php

/*
 * A worker script that talks to the Redis at $TEST_REDIS while it boots. It keeps the connection, or it was a persistent one and
 * nobody uses it any more, if $TEST_PERSISTENT is set.
 *
 * Runs in: zygote | worker. Called by: tests/it/refusal.rs.
 */

declare(strict_types=1);

final class Cache
{
    public static ?Redis $redis = null;

    public static function ask(): string
    {
        $redis = self::$redis ?? new Redis();
        if (!$redis->isConnected()) {
            $redis->pconnect((string) getenv('TEST_REDIS'));
        }
        return (string) $redis->echo('an answer');
    }
}

if (getenv('TEST_PERSISTENT')) {
    Cache::ask();
} else {
    Cache::$redis = new Redis();
    Cache::$redis->connect((string) getenv('TEST_REDIS'));
}

while (hearth_handle_request(static fn () => print Cache::ask())) {
    // The next request.
}
