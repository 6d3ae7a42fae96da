<?php

declare(strict_types=1);

/** Sessions in files of its own, which says what it was asked. */
final class OwnSessions implements SessionHandlerInterface
{
    public static array $calls = [];

    public function open(string $path, string $name): bool
    {
        self::$calls[] = 'open';
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string|false
    {
        self::$calls[] = 'read';
        return (string) @file_get_contents(file_of_test('own-' . $id));
    }

    public function write(string $id, string $data): bool
    {
        return file_put_contents(file_of_test('own-' . $id), $data) !== false;
    }

    public function destroy(string $id): bool
    {
        return unlink(file_of_test('own-' . $id));
    }

    public function gc(int $lifetime): int|false
    {
        return 0;
    }
}

/** Counts the requests of a session, and leaves it open: its end is the request's. */
function count_on(): void
{
    same(PHP_SESSION_NONE, session_status());
    same('', session_id());
    session_name('COUNTER');
    session_start();
    $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
    same((int) $_GET['count'], $_SESSION['count']);
    Kept::keep(session_id());
}

return [
    'files' => function (): void {
        session_save_path(getenv('EXTENSIONS_FOLDER'));
        count_on();
    },
    'redis' => function (): void {
        ini_set('session.save_handler', 'redis');
        ini_set('redis.session.locking_enabled', '1');
        ini_set('redis.session.lock_retries', '100');
        session_save_path('unix://' . getenv('EXTENSIONS_REDIS'));
        count_on();
    },
    'user' => function (): void {
        session_set_save_handler(new OwnSessions(), true);
        count_on();
        same(['open', 'read'], OwnSessions::$calls);
    },
];
