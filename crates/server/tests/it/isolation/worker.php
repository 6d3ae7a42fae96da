<?php

/*
 * A resident application for the tests of isolation: /leave changes everything that a process and PHP keep, /look says what
 * a request finds. What the other paths do is said beside them.
 */

declare(strict_types=1);

require __DIR__ . '/leave.php';
require __DIR__ . '/look.php';

final class Kept
{
    public static int $count = 0;
    public array $rows = [];
}

/** Counts in each place that a request may keep something in. */
function count_up(Kept $booted): void
{
    static $calls = 0;

    $GLOBALS['count'] = ($GLOBALS['count'] ?? 0) + 1;
    $booted->rows[] = $_SERVER['REQUEST_URI'];
    echo implode(' ', [++$calls, ++Kept::$count, $GLOBALS['count'], count($booted->rows)]);
}

/** Starts a thread that never ends. */
function leave_thread(): void
{
    $c = FFI::cdef(<<<'C'
        typedef unsigned long pthread_t;
        typedef void *(*start)(void *);
        int pthread_create(pthread_t *thread, void *attributes, start run, void *argument);
        int pause(void);
        C);
    $thread = $c->new('pthread_t');
    echo $c->pthread_create(FFI::addr($thread), null, $c->cast('start', $c->pause), null);
}

/** Ends the request in the way that was asked for. */
function end_with(string $how): void
{
    // What PHP does with it at the memory limit is another matter.
    echo $how === 'memory' ? '' : 'said before';
    match ($how) {
        'exit' => exit(3),
        'throw' => throw new RuntimeException('thrown on purpose'),
        // A compile-time error that cannot be caught.
        'fatal' => eval('class Twice {} class Twice {}'),
        'memory' => str_repeat('x', 1 << 40),
    };
}

$booted = new Kept();
$file = fopen(__FILE__, 'r');

while (
    hearth_handle_request(static function () use ($booted, $file): void {
        match (parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) {
            '/count' => count_up($booted),
            '/end' => end_with($_GET['how']),
            '/leave' => leave($file, $_GET['lock']),
            '/look' => print(json_encode(look($file, $_GET['lock']), JSON_PRETTY_PRINT | JSON_THROW_ON_ERROR)),
            // Both end the process of the request.
            '/signal' => posix_kill(getmypid(), (int) $_GET['number']),
            '/crash' => FFI::cdef('size_t strlen(uintptr_t address);', 'libc.so.6')->strlen(16),
            '/nice' => proc_nice(1),
            '/thread' => leave_thread(),
            '/priority' => print(explode(' ', file_get_contents('/proc/self/stat'))[18]),
            '/nested' => hearth_handle_request(static fn () => null),
            default => print('hello '),
        };
    })
) {
    // Behind the handler, as frameworks do it: their script is still in the request.
    if (parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH) === '/behind') {
        echo 'and behind';
        fastcgi_finish_request();
        register_shutdown_function(file_put_contents(...), $_GET['mark'], ' shutdown', FILE_APPEND);
        file_put_contents($_GET['mark'], 'behind', FILE_APPEND);
        if ($_GET['how'] === 'break') {
            break;
        }
        if ($_GET['how'] !== 'next') {
            end_with($_GET['how']);
        }
    }
}
