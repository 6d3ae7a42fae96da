<?php

/*
 * Answers a request with what identifies it, so that a client can tell its own answer from any other:
 *
 *   id      the query's `id`, as sent
 *   method  the request's method
 *   length  bytes of the body
 *   sha256  of the body
 *   worker  process id
 *
 * `ms` keeps the worker that long; `pad` appends so many bytes to the JSON, repeated from the id's SHA-256, to make an
 * answer long.
 */

declare(strict_types=1);

function answer(): void
{
    $id = (string) ($_GET['id'] ?? '');
    $body = (string) file_get_contents('php://input');
    $milliseconds = min(10_000, max(0, (int) ($_GET['ms'] ?? 0)));
    $pad = min(64 << 20, max(0, (int) ($_GET['pad'] ?? 0)));

    if ($milliseconds > 0) {
        usleep($milliseconds * 1000);
    }

    header('Content-Type: application/json');
    header('Cache-Control: no-store');
    echo json_encode([
        'id' => $id,
        'method' => $_SERVER['REQUEST_METHOD'],
        'length' => strlen($body),
        'sha256' => hash('sha256', $body),
        'worker' => getmypid(),
    ]), "\n";
    if ($pad > 0) {
        $digest = hash('sha256', $id);
        echo substr(str_repeat($digest, intdiv($pad, strlen($digest)) + 1), 0, $pad);
    }
}
