<?php

/*
 * An application that memoises who asks (host, user, locale) in every place that PHP has for it, as applications do that
 * expect a fresh process. Resident or classic, each first answer of a process must be the same. `do=…` ends otherwise.
 *
 * Runs in: zygote, worker. Called by: tests/it/warmup.rs.
 */

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Memo\\')) {
        require __DIR__ . '/memo/' . substr($class, 5) . '.php';
    }
});

require_once __DIR__ . '/memo/functions.php';

$answer = static function (): void {
    match ($_GET['do'] ?? '') {
        'exit' => exit(Memo\Places::all() === [] ? 1 : 0),
        'throw' => throw new RuntimeException('no database for ' . $_GET['user']),
        'fatal' => array_fill(0, 100_000_000, 'x'),
        'missing' => http_response_code(404),
        'failing' => (static function (): void {
            http_response_code(503);
            echo 'closed for ', $_GET['user'];
        })(),
        'loaded' => print(json_encode([class_exists('Memo\Late', false), Memo\Places::known()])),
        'sockets' => stream_socket_client('udp://127.0.0.1:9', flags: STREAM_CLIENT_CONNECT | STREAM_CLIENT_PERSISTENT),
        'descriptors' => print(json_encode(array_filter(
            array_map(static fn (string $fd): string => (string) @readlink($fd), glob('/proc/self/fd/*') ?: []),
            static fn (string $target): bool => str_starts_with($target, 'socket:'),
        ))),
        default => print(json_encode(Memo\Places::all(), JSON_PRETTY_PRINT)),
    };
};

if (!isset($_SERVER['REQUEST_METHOD'])) {
    while (hearth_handle_request($answer)) {
    }
} else {
    $answer();
}
