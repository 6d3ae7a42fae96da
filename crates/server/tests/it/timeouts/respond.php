<?php

/*
 * Requests that take long, each in its way. Called per request by worker.php (resident) and public/index.php (classic).
 */

declare(strict_types=1);

final class Slow
{
    public function sleep(): void
    {
        sleep(60);
    }

    public static function loop(): void
    {
        for ($i = 0; $i >= 0; $i = ($i + 1) % 1000) {
        }
    }

    /** A server that accepts and says nothing. */
    public function silent(string $address): void
    {
        ini_set('default_socket_timeout', '60');
        file_get_contents("http://$address/");
    }

    public function regex(bool $jit): void
    {
        ini_set('pcre.jit', $jit ? '1' : '0');
        ini_set('pcre.backtrack_limit', (string) PHP_INT_MAX);
        preg_match('/^(a+)+$/', str_repeat('a', 60) . '!');
    }
}

/** Says what happened when the script ends. */
function note_end(string $file): void
{
    register_shutdown_function(static function () use ($file): void {
        $error = error_get_last();
        file_put_contents($file, json_encode([$error['message'] ?? null, connection_status()]) . "\n", FILE_APPEND);
    });
}

/** What waits answer that a look falls into. */
function naps(): array
{
    $begun = hrtime(true);
    $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $read = [$pair[0]];
    $none = null;
    $results = match ($_GET['kind']) {
        'sleep' => sleep(1),
        'usleep' => usleep(900_000),
        'select' => stream_select($read, $none, $none, 0, 900_000),
        'read' => [stream_set_timeout($pair[0], 0, 900_000), fread($pair[0], 10)],
        'lock' => shell_exec('sleep 0.9'),
        'loop' => spin(900_000_000),
    };
    return [$results, error_get_last()['message'] ?? null, hrtime(true) - $begun > 880_000_000];
}

function spin(int $nanoseconds): void
{
    $end = hrtime(true) + $nanoseconds;
    while (hrtime(true) < $end) {
    }
}

/** A script that wants the host's signals for itself. */
function grab(int ...$signals): array
{
    // With integers in place of pointers; 1 is SIG_IGN, and what fails answers SIG_ERR: -1.
    $libc = FFI::cdef('long signal(int number, long handler);');
    return array_map(static fn (int $signal): int => $libc->signal($signal, 1), $signals);
}

function deep(int $depth): void
{
    if ($depth > 0) {
        deep($depth - 1);
        return;
    }
    sleep(60);
}

function respond(): void
{
    header('Content-Type: text/plain');
    if (isset($_GET['say'])) {
        // A request says when it is there.
        error_log($_SERVER['REQUEST_URI']);
    }
    match (parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) {
        '/sleep' => (new Slow())->sleep(),
        '/loop' => Slow::loop(),
        '/silent' => (new Slow())->silent($_GET['address']),
        '/regex' => (new Slow())->regex($_GET['jit'] === '1'),
        '/deep' => deep(500),
        '/ends' => [note_end($_GET['file']), (new Slow())->sleep()],
        // The shutdown function does not end.
        '/endless' => [register_shutdown_function(Slow::loop(...)), (new Slow())->sleep()],
        // At the limit some of the response is with the client.
        '/begun' => [print('begun'), ob_flush(), flush(), (new Slow())->sleep()],
        '/naps' => print(json_encode(naps())),
        '/grab' => [error_log(json_encode(grab(61, 62))), (new Slow())->sleep()],
        '/reset' => print(json_encode([opcache_reset(), opcache_get_status(false)['restart_pending']])),
        default => print('hello from ' . $_SERVER['REQUEST_URI']),
    };
}
