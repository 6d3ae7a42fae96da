<?php

declare(strict_types=1);

function target(): string
{
    return 'user=app dbname=postgres host=' . getenv('EXTENSIONS_PGSQL');
}

return [
    'use' => function (): void {
        $link = pg_connect(target());
        same('', pg_fetch_result(pg_query($link, "SELECT current_setting('own.left', true)"), 0, 0) ?? '');
        pg_query($link, "SET own.left = 'left'; CREATE TEMPORARY TABLE own (id INT); LISTEN own");
        // Both wait for a connection that an earlier request has left, if there is one.
        pg_query($link, 'SELECT pg_advisory_lock(1)');
        pg_query($link, 'BEGIN');
        same(1, pg_affected_rows(pg_query($link, 'INSERT INTO entries VALUES (1)')));
        pg_prepare($link, 'one', 'SELECT id FROM entries WHERE id = $1');
        $result = pg_execute($link, 'one', [1]);
        same(['id' => '1'], pg_fetch_assoc($result));
        same(true, pg_send_query($link, 'SELECT 1; SELECT 2'));
        Kept::keep($link, $result);
    },
    'persistent' => function (): void {
        $link = pg_pconnect(target());
        same('1', pg_fetch_result(pg_query($link, 'SELECT 1'), 0, 0));
        Kept::keep($link);
    },
];
