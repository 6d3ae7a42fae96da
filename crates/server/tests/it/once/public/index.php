<?php

// Serves under Hearth and under php-fpm alike, and shows what each of them makes of a request.

declare(strict_types=1);

ini_set('display_errors', '0');
$server = &$_SERVER;
$input = fopen('php://input', 'r');
$_SERVER['ADDED'] = 'above';
register_shutdown_function(static function (): void {
    echo "\nshutdown ", http_response_code(), ' ', ob_get_level();
});

if (function_exists('hearth_request')) {
    hearth_request();
}

session_id('abc');
session_start();
$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
setcookie('seen', '1');
header('X-Visits: ' . $_SESSION['visits']);
echo json_encode([
    $_GET,
    $_POST,
    $_COOKIE,
    $_FILES,
    $server['REQUEST_METHOD'],
    $_SERVER['ADDED'],
    stream_get_contents($input),
    isset($argv),
    ob_get_level(),
    headers_list(),
    getcwd() === __DIR__,
]);
if ($_SERVER['REQUEST_METHOD'] === 'PUT') {
    exit("\nexit");
}
