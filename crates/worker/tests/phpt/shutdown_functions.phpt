--TEST--
Shutdown functions run at the end of their request; those of the boot at the end of the script
--ARGS--
--resident --request 'GET /a' --request 'GET /b'
--FILE--
<?php
require __DIR__ . '/worker.inc';

register_shutdown_function(function () { file_put_contents('php://stderr', "boot\n"); });
serve(function () {
    register_shutdown_function(function ($uri) { echo "first $uri\n"; }, $_SERVER['REQUEST_URI']);
    register_shutdown_function(function () { echo "second\n"; });
    echo "handler\n";
});
--EXPECT--
handler
first /a
second
handler
first /b
second
boot
