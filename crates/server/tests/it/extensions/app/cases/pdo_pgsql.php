<?php

declare(strict_types=1);

function connect(array $options = []): PDO
{
    return new PDO('pgsql:user=app;dbname=postgres;host=' . getenv('EXTENSIONS_PGSQL'), options: $options);
}

return [
    'use' => function (): void {
        $pdo = connect();
        $pdo->exec('CREATE TEMPORARY TABLE own (id INT)');
        $pdo->beginTransaction();
        same(1, $pdo->exec('INSERT INTO entries VALUES (1)'));
        $statement = $pdo->prepare('SELECT id FROM entries WHERE id = ?');
        $statement->execute([1]);
        same(1, $statement->fetchColumn());
        Kept::keep($pdo, $statement);
    },
    'persistent' => function (): void {
        $pdo = connect([PDO::ATTR_PERSISTENT => true]);
        same(1, $pdo->query('SELECT 1')->fetchColumn());
        Kept::keep($pdo);
    },
];
