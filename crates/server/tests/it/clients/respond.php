<?php

/*
 * What the clients of clients.rs ask: one function, called per request by worker.php (resident) and public/index.php (classic). What a
 * path does is said beside it.
 */

declare(strict_types=1);

function respond(): void
{
    match (parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) {
        // What came.
        '/echo' => say(came()),
        // How often this session has asked.
        '/count' => say(['count' => counted()]),
        // Leads to /echo, with this status.
        '/leave' => leave((int) $_GET['status']),
        // Text that is worth compressing.
        '/text' => text(),
        // Says "first", and "second" when the file is there.
        '/parts' => parts($_GET['open']),
        // So many MiB, which cannot be compressed and are the same each time.
        '/big' => big((int) $_GET['mib']),
        // What changes with a reload: a setting of PHP, the rest is the server's.
        '/release' => release(),
        // The same few bytes each time.
        default => print('hello'),
    };
}

function say(array $what): void
{
    header('Content-Type: application/json');
    echo json_encode($what, JSON_THROW_ON_ERROR);
}

function came(): array
{
    $body = file_get_contents('php://input');
    return [
        'method' => $_SERVER['REQUEST_METHOD'],
        'protocol' => $_SERVER['SERVER_PROTOCOL'],
        'secure' => ($_SERVER['HTTPS'] ?? '') === 'on',
        // One number a connection.
        'port' => (int) $_SERVER['REMOTE_PORT'],
        'query' => $_GET,
        'fields' => $_POST,
        'files' => array_map(received(...), $_FILES),
        'length' => strlen($body),
        'sha256' => hash('sha256', $body),
    ];
}

function received(array $file): array
{
    return [
        'name' => $file['name'],
        'type' => $file['type'],
        'size' => $file['size'],
        'sha256' => hash_file('sha256', $file['tmp_name']),
    ];
}

function counted(): int
{
    session_start(['save_path' => getenv('CLIENTS_SESSIONS')]);
    return $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
}

function leave(int $status): void
{
    header('Location: /echo?from=' . $status, true, $status);
}

function text(): void
{
    header('Content-Type: text/plain; charset=UTF-8');
    for ($line = 0; $line < 5000; $line++) {
        echo 'line ', $line, " of a text that is worth compressing\n";
    }
}

function parts(string $open): void
{
    header('Content-Type: text/plain; charset=UTF-8');
    echo "first\n";
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    flush();
    while (!file_exists($open)) {
        usleep(1000);
        clearstatcache();
    }
    echo "second\n";
}

function big(int $mib): void
{
    header('Content-Type: application/octet-stream');
    for ($i = 0; $i < $mib; $i++) {
        echo str_repeat(hash('sha256', (string) $i, true), 1 << 15);
    }
}

function release(): void
{
    say([
        'release' => (int) ini_get('user_agent'),
        'port' => (int) $_SERVER['REMOTE_PORT'],
        'text' => str_repeat('x', 2000),
    ]);
}
