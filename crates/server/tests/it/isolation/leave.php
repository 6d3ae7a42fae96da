<?php

/* Changes what a process and PHP keep. Each line is undone by the end of the request, or the next one sees it. */

declare(strict_types=1);

/** @param resource $file open since the boot */
function leave($file, string $lock): void
{
    leave_in_the_process($file, $lock);
    leave_in_php();
    leave_in_extensions();
    echo 'left';
    ob_start();
    ob_start(static fn (string $text): string => $text);
}

/** @param resource $file */
function leave_in_the_process($file, string $lock): void
{
    static $opened = [];

    chdir('/');
    umask(0);
    putenv('HEARTH_LEFT=1');
    putenv('TZ=America/New_York');
    setlocale(LC_ALL, 'C.UTF-8', 'C.utf8');
    for ($i = 0; $i < 5; $i++) {
        $opened[] = fopen('php://temp/maxmemory:0', 'w+');
        $opened[] = fopen('/dev/null', 'r');
    }
    $opened[] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    // The lock belongs to the open file, which has no other end than its last descriptor's.
    $locked = fopen($lock, 'c');
    flock($locked, LOCK_EX);
    $opened[] = $locked;
    fseek($file, 100);
    set_time_limit(7);
    ignore_user_abort(true);
    if (function_exists('pcntl_signal')) {
        pcntl_signal(SIGUSR1, static fn () => null);
        pcntl_sigprocmask(SIG_BLOCK, [SIGUSR2]);
    }
}

function leave_in_php(): void
{
    date_default_timezone_set('Asia/Kathmandu');
    ini_set('precision', '3');
    ini_set('memory_limit', '77M');
    ini_set('include_path', '/nowhere');
    error_reporting(0);
    gc_disable();
    define('HEARTH_LEFT', true);
    class_alias(Kept::class, 'HearthLeft');
    set_error_handler(static fn () => true);
    set_exception_handler(static fn () => null);
    spl_autoload_register(static fn () => null);
    register_shutdown_function(static fn () => null);
    stream_wrapper_register('left', Kept::class);
    stream_wrapper_unregister('glob');
    stream_filter_register('left', php_user_filter::class);
    stream_context_set_default(['http' => ['header' => 'X-Left: 1']]);
    http_response_code(201);
    header('X-Left: 1');
    Kept::$count = 77;
}

function leave_in_extensions(): void
{
    if (function_exists('mb_internal_encoding')) {
        mb_internal_encoding('ISO-8859-1');
        mb_substitute_character(0x78);
        mb_language('Japanese');
    }
    if (function_exists('libxml_use_internal_errors')) {
        libxml_use_internal_errors(true);
        simplexml_load_string('<left');
    }
    if (function_exists('bcscale')) {
        bcscale(7);
    }
    if (class_exists(Locale::class)) {
        Locale::setDefault('ja_JP');
    }
    json_decode('{');
    preg_match('/(?:\D+|<\d+>)*[!?]/', 'foobar foobar foobar');
    mt_srand(1);
}
