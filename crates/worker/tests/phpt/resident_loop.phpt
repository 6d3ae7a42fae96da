--TEST--
A worker script serves requests, then hearth_handle_request() answers false
--ARGS--
--resident 3 --request 'GET /a' --request 'GET /b'
--FILE--
<?php
require __DIR__ . '/worker.inc';

$n = 0;
while ($more = hearth_handle_request(function () use (&$n) {
    echo ++$n, ' ', $_SERVER['REQUEST_URI'], "\n";
})) {
}
file_put_contents('php://stderr', 'more: ' . var_export($more, true) . ', again: ' . var_export(hearth_handle_request(fn() => 1), true) . "\n");
--EXPECT--
1 /a
2 /b
3 /
more: false, again: false
