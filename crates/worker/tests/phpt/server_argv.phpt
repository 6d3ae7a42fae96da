--TEST--
$_SERVER[argv] is made of the query string, as under php-fpm
--INI--
register_argc_argv=1
--ARGS--
--resident --request 'GET /?a+b'
--FILE--
<?php
require __DIR__ . '/worker.inc';

$boot = $_SERVER['argc'];
serve(function () use ($boot) { echo $boot, ' ', json_encode($_SERVER['argv'] ?? null), ' ', $_SERVER['argc'] ?? '-', "\n"; });
--EXPECT--
1 ["a","b"] 2
