<?php

declare(strict_types=1);

function connect(array $options = []): PDO
{
    return new PDO('mysql:dbname=test;unix_socket=' . getenv('EXTENSIONS_MYSQL'), 'app', '', $options);
}

return [
    'use' => function (): void {
        $pdo = connect();
        same(null, $pdo->query('SELECT @left')->fetchColumn());
        $pdo->exec('SET @left = 1');
        $pdo->beginTransaction();
        same(1, $pdo->exec('INSERT INTO entries VALUES (1)'));
        $statement = $pdo->prepare('SELECT id FROM entries WHERE id = ?');
        $statement->execute([1]);
        same(1, $statement->fetchColumn());
        Kept::keep($pdo, $statement);
    },
    'persistent' => function (): void {
        $pdo = connect([PDO::ATTR_PERSISTENT => true]);
        same('1', (string) $pdo->query('SELECT 1')->fetchColumn());
        Kept::keep($pdo);
    },
];
