<?php

/* What a request finds: equal for all of them. */

declare(strict_types=1);

/**
 * @param resource $file open since the boot
 * @return array<string, mixed>
 */
function look($file, string $lock): array
{
    return look_at_the_process($file, $lock) + look_at_php() + look_at_extensions();
}

/**
 * @param resource $file
 * @return array<string, mixed>
 */
function look_at_the_process($file, string $lock): array
{
    $locked = fopen($lock, 'c');
    $status = (string) file_get_contents('/proc/self/status');
    preg_match_all('/^(Sig(?:Blk|Ign|Cgt)|Threads):\s*(\S+)/m', $status, $signals);

    return [
        'working directory' => getcwd(),
        'umask' => umask(),
        'environment' => [getenv('HEARTH_LEFT'), getenv('TZ')],
        'locale' => setlocale(LC_ALL, '0'),
        'local time' => [date('T', 0), (new DateTime('@0'))->format('c')],
        'descriptors' => count(scandir('/proc/self/fd')),
        'file can be locked' => flock($locked, LOCK_EX | LOCK_NB),
        'position in a file of the boot' => ftell($file),
        'signals' => array_combine($signals[1], $signals[2]),
        'connection' => [ignore_user_abort(), ini_get('max_execution_time')],
    ];
}

/** @return array<string, mixed> */
function look_at_php(): array
{
    $error = set_error_handler(null);
    $exception = set_exception_handler(null);

    return [
        'time zone' => date_default_timezone_get(),
        'settings' => array_map('ini_get', ['precision', 'memory_limit', 'include_path', 'error_reporting']),
        'garbage collection' => gc_enabled(),
        'names' => [defined('HEARTH_LEFT'), class_exists('HearthLeft', false)],
        'handlers' => [$error, $exception, count(spl_autoload_functions())],
        'wrappers' => stream_get_wrappers(),
        'filters' => stream_get_filters(),
        'context' => stream_context_get_options(stream_context_get_default()),
        'buffers' => ob_get_status(true),
        'head' => [http_response_code(), headers_list()],
        'static property' => Kept::$count,
        'last error' => error_get_last(),
        'included' => array_map('basename', get_included_files()),
        'resources' => count(get_resources()),
    ];
}

/** @return array<string, mixed> */
function look_at_extensions(): array
{
    $found = ['json' => json_last_error(), 'pcre' => preg_last_error()];
    if (function_exists('mb_internal_encoding')) {
        $found['mbstring'] = [mb_internal_encoding(), mb_substitute_character(), mb_language()];
    }
    if (function_exists('libxml_get_errors')) {
        $found['libxml'] = [count(libxml_get_errors()), libxml_use_internal_errors()];
    }
    if (function_exists('bcscale')) {
        $found['bcmath'] = bcscale();
    }
    if (class_exists(Locale::class)) {
        $found['intl'] = Locale::getDefault();
    }

    return $found;
}
