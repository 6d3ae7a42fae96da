<?php

/*
 * A worker script whose requests remember who asked, in each place that PHP has for it; those of `/plain` do not.
 *
 * Runs in: zygote | worker. Called by: tests/it/refusal.rs.
 */

declare(strict_types=1);

final class Tenants
{
    public static ?string $current = null;
    public static int $booted = 0;
    /** @var array<string, true> */
    public array $known = [];
    /** @var resource|null */
    public $log = null;
}

function locale(): string
{
    static $locale;

    return $locale ??= $_GET['locale'];
}

$booted = 'global';
$user = null;
Tenants::$booted = 1;
ini_set('memory_limit', '64M');
date_default_timezone_set('UTC');
$tenants = new Tenants();

$answer = static function () use ($tenants): void {
    if ($_SERVER['REQUEST_URI'] === '/plain') {
        echo 'nothing remembered';
        return;
    }
    static $first;
    global $user;

    $first ??= $_GET['user'];
    $user = $_GET['user'];
    Tenants::$current ??= $_GET['tenant'];
    $tenants->known[$_GET['tenant']] = true;
    $tenants->log ??= fopen(__FILE__, 'r');
    defined('TENANT') || define('TENANT', $_GET['tenant']);
    ini_set('precision', '10');
    set_error_handler(static fn (): bool => false);
    putenv('MEMORY_USER=' . $_GET['user']);
    setlocale(LC_ALL, 'C.UTF-8');
    date_default_timezone_set('Asia/Tokyo');
    echo locale();
};

while (hearth_handle_request($answer)) {
    // The next request.
}
