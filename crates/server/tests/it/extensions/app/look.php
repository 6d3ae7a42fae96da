<?php

declare(strict_types=1);

/** State that extensions keep beside PHP's variables. */
function look(): array
{
    return [
        'kept' => count(Kept::$things) + count($GLOBALS['kept'] ?? []),
        'globals' => array_values(array_diff(array_keys($GLOBALS), ['_GET', '_POST', '_COOKIE', '_FILES', '_SERVER', '_ENV', '_REQUEST'])),
        'descriptors' => descriptors(),
        'ini' => ini_get_all(null, false),
        'error' => error_get_last(),
        'locale' => setlocale(LC_ALL, '0'),
        'zone' => date_default_timezone_get(),
        'wrappers' => stream_get_wrappers(),
        'filters' => stream_get_filters(),
        'loaders' => count(spl_autoload_functions()),
        'session' => session_status(),
        'session.handler' => [session_module_name(), session_id(), session_name()],
        'mbstring' => [
            mb_internal_encoding(), mb_regex_encoding(), mb_regex_set_options(), mb_language(), mb_detect_order(),
            mb_substitute_character(), mb_http_output(), mb_http_input(),
        ],
        'intl' => [Locale::getDefault(), intl_get_error_code(), intl_get_error_message()],
        'libxml' => [libxml_use_internal_errors(), libxml_get_last_error(), libxml_get_external_entity_loader()],
        'curl' => strlen(serialize(curl_version())),
        'mysqli' => [mysqli_connect_errno(), mysqli_connect_error(), mysqli_get_links_stats()['active_plinks'], (new mysqli_driver())->report_mode],
        'resources' => array_values(array_map(get_resource_type(...), get_resources())),
    ];
}

/** Where the open descriptors lead, numbers of sockets and pipes aside. Whether a script is open is up to OPcache. */
function descriptors(): array
{
    $seen = [];
    foreach (scandir('/proc/self/fd') as $number) {
        $target = @readlink('/proc/self/fd/' . $number);
        if ($target !== false && !str_starts_with($target, '/proc/') && !str_ends_with($target, '.php')) {
            $seen[] = preg_replace('/\d+/', 'N', $target);
        }
    }
    sort($seen);
    return $seen;
}
