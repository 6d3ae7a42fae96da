<?php

/*
 * The application of the integration tests: one function, called per request by worker.php (resident) and
 * public/index.php (classic). What a path does is said beside it.
 */

declare(strict_types=1);

function respond(): void
{
    header('Content-Type: text/plain; charset=UTF-8');
    match (parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) {
        '/big' => big((int) $_GET['mib']),
        '/pid' => print(getmypid()),
        '/server' => print(json_encode($_SERVER)),
        '/ini' => print(ini_get($_GET['name'])),
        '/length' => print(strlen(file_get_contents('php://input'))),
        // Ends the script on purpose.
        '/exit' => stop('said before exit'),
        // Ends it by a fatal error, an uncaught exception or the memory limit.
        '/fatal' => fatal(),
        '/throw' => throw new RuntimeException('thrown on purpose'),
        '/memory' => print(strlen(str_repeat('x', 1 << 40))),
        // Flushes again and again until the client has gone; says "streaming" in the log after the delay, and how it ended.
        '/stream' => stream((int) $_GET['delay'], isset($_GET['ignore'])),
        // So many hints, and the page at once.
        '/hints' => hints((int) $_GET['count']),
        // So many hints of 4 KB, or hints without end.
        '/flood' => flood((int) ($_GET['count'] ?? PHP_INT_MAX)),
        // Sends a hint, says "hint sent" in the log, and waits until the file exists.
        '/hint' => hint($_GET['open'], (int) ($_GET['status'] ?? 103)),
        // Says "at the gate" in the log and waits until the file exists.
        '/gate' => gate($_GET['open']),
        // As /gate the first time, tells it by the file; answers at once the second time.
        '/once' => once($_GET['mark']),
        // Keeps some memory beyond the request, where that is possible, and says how often it has.
        '/keep' => keep((int) $_GET['mib']),
        // Ends the process.
        '/kill' => posix_kill(getmypid(), 9),
        // The same, from within a function of PHP: strlen(NULL) or exit(3) of the C library.
        '/segfault' => FFI::cdef('size_t strlen(const char *text);')->strlen(null),
        '/quit' => FFI::cdef('void exit(int status);')->exit(3),
        // Sets a status and a header.
        '/head' => head((int) $_GET['status'], $_GET['header']),
        // Who asks, and what for.
        '/peer' => peer(),
        // Prints on descriptor 2 and through error_log().
        '/log' => speak(),
        // Writes a line of each level.
        '/levels' => levels(),
        // Leaves a process behind, which outlives its shell: one that ends before it may be reaped by the shell.
        '/orphan' => print(shell_exec('sh -c "while kill -0 $$; do :; done" > /dev/null 2>&1 & echo $!')),
        default => print('hello from ' . $_SERVER['REQUEST_URI']),
    };
}

function big(int $mib): void
{
    for ($i = 0; $i < $mib; $i++) {
        echo str_repeat('b', 1 << 20);
    }
}

function stream(int $delay, bool $ignore): void
{
    ignore_user_abort($ignore);
    register_shutdown_function(fn () => error_log('ended with ' . connection_status()));
    usleep($delay * 1000);
    error_log('streaming');
    for ($i = 0; $i < 3000 && !connection_aborted(); $i++) {
        echo '.';
        flush();
        usleep(5_000);
    }
    error_log('loop left with ' . connection_status());
}

function hint(string $open, int $status): void
{
    header('Link: </style.css>; rel=preload; as=style');
    headers_send($status);
    error_log('hint sent');
    while (!file_exists($open)) {
        usleep(1000);
        clearstatcache();
    }
    echo 'hinted';
}

function hints(int $count): void
{
    for ($number = 0; $number < $count; $number++) {
        header("Link: </$number.css>; rel=preload");
        headers_send(103);
    }
    echo 'hinted';
}

function flood(int $count): void
{
    register_shutdown_function(fn () => error_log('flood ended with ' . connection_status()));
    for ($number = 0; $number < $count; $number++) {
        header('Link: </' . str_repeat('a', 4000) . "$number>");
        headers_send(103);
    }
    header_remove('Link');
    echo 'flooded';
}

function stop(string $text): never
{
    echo $text;
    exit(3);
}

function fatal(): void
{
    echo 'said before the error';
    // A compile-time error that cannot be caught.
    eval('class Twice {} class Twice {}');
}

function keep(int $mib): void
{
    static $kept = [];
    $kept[] = str_repeat('x', $mib << 20);
    echo count($kept);
}

function gate(string $file): void
{
    error_log('at the gate');
    while (!file_exists($file)) {
        usleep(2000);
        clearstatcache();
    }
    echo 'through the gate';
}

function once(string $mark): void
{
    if (!file_exists($mark)) {
        touch($mark);
        gate($mark . '.never');
    }
    echo 'second try';
}

function head(int $status, string $header): void
{
    http_response_code($status);
    header($header);
    echo 'body';
}

function peer(): void
{
    $names = ['REMOTE_ADDR', 'REMOTE_PORT', 'REQUEST_SCHEME', 'HTTPS', 'SERVER_PORT', 'SERVER_NAME', 'HTTP_HOST', 'HTTP_X_FORWARDED_FOR'];
    echo implode(' ', array_map(fn (string $name): string => ($_SERVER[$name] ?? '') ?: '-', $names));
}

function speak(): void
{
    error_log("logged\nin two lines");
    file_put_contents('php://stderr', "printed\n");
    echo 'spoken';
}

function levels(): void
{
    hearth_log('PHP Fatal error: only information');
    hearth_log("in two\nlines", HEARTH_LOG_LEVEL_DEBUG, ['a' => ['b' => 1.5], 'c' => "\xff", 'd' => NAN, 'e' => 'ü/']);
    frankenphp_log('warning', FRANKENPHP_LOG_LEVEL_WARN, ['a list']);
    frankenphp_log(level: FRANKENPHP_LOG_LEVEL_ERROR, message: 'error');
    hearth_log('beyond', 99);
    hearth_log('below', PHP_INT_MIN, []);
    echo 'logged';
}
