<?php

declare(strict_types=1);

function connect(string $host = 'localhost'): mysqli
{
    mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
    return new mysqli($host, 'app', '', 'test', 0, getenv('EXTENSIONS_MYSQL'));
}

return [
    'use' => function (): void {
        $mysqli = connect();
        same(null, $mysqli->query('SELECT @left')->fetch_row()[0]);
        $mysqli->query('SET @left = 1, SESSION sql_mode = ""');
        $mysqli->query('CREATE TEMPORARY TABLE own (id INT)');
        // Both wait for a connection that an earlier request has left, if there is one.
        same('1', $mysqli->query('SELECT GET_LOCK("lock", 10)')->fetch_row()[0]);
        $mysqli->begin_transaction();
        $mysqli->query('INSERT INTO entries VALUES (1)');
        $statement = $mysqli->prepare('SELECT id FROM entries WHERE id = ?');
        $statement->bind_param('i', $one);
        $one = 1;
        $statement->execute();
        same([['id' => 1]], $statement->get_result()->fetch_all(MYSQLI_ASSOC));
        // A result that is only half read.
        $result = $mysqli->query('SELECT 1 UNION SELECT 2', MYSQLI_USE_RESULT);
        same(['1'], $result->fetch_row());
        Kept::keep($mysqli, $statement, $result);
    },
    'persistent' => function (): void {
        $mysqli = connect('p:localhost');
        same('1', $mysqli->query('SELECT 1')->fetch_row()[0]);
        Kept::keep($mysqli);
    },
];
