<?php

declare(strict_types=1);

return [
    'create' => function (): void {
        $database = new SQLite3(file_of_test('sqlite.db'));
        $database->exec('CREATE TABLE entries (id INTEGER PRIMARY KEY)');
    },
    'use' => function (): void {
        $pdo = new PDO('sqlite:' . file_of_test('sqlite.db'), options: [PDO::ATTR_TIMEOUT => 1]);
        same(0, $pdo->query('SELECT COUNT(*) FROM entries')->fetchColumn());
        // Nobody else has a lock; this one is kept until the end of the request.
        $pdo->exec('BEGIN EXCLUSIVE');
        same(1, $pdo->exec('INSERT INTO entries VALUES (1)'));
        $pdo->sqliteCreateFunction('twice', fn (int $number): int => 2 * $number);
        $statement = $pdo->query('SELECT twice(id) FROM entries');
        same('2', (string) $statement->fetchColumn());
        Kept::keep($pdo, $statement);
    },
    'sqlite3' => function (): void {
        $database = new SQLite3(file_of_test('sqlite.db'));
        $database->enableExceptions(true);
        $database->busyTimeout(1000);
        same(0, $database->querySingle('SELECT COUNT(*) FROM entries'));
        $database->exec('BEGIN EXCLUSIVE; INSERT INTO entries VALUES (1)');
        $database->createAggregate('total2', fn ($sum, int $row, int $n): int => $sum + 2 * $n, fn ($sum): int => $sum);
        same(2, $database->querySingle('SELECT total2(id) FROM entries'));
        $result = $database->query('SELECT id FROM entries');
        same(['id' => 1], $result->fetchArray(SQLITE3_ASSOC));
        Kept::keep($database, $result);
    },
    'persistent' => function (): void {
        $pdo = new PDO('sqlite:' . file_of_test('sqlite.db'), options: [PDO::ATTR_PERSISTENT => true]);
        same(0, $pdo->query('SELECT COUNT(*) FROM entries')->fetchColumn());
    },
];
