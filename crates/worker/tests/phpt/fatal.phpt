--TEST--
A fatal error completes the response and ends the script; all shutdown functions run in order
--INI--
display_errors=0
log_errors=1
error_log=/dev/null
expose_php=0
--ARGS--
--resident 2 --head
--FILE--
<?php
require __DIR__ . '/worker.inc';

register_shutdown_function(function () { echo "boot\n"; });
serve(function () {
    register_shutdown_function(function () { echo 'request ', error_get_last()['message'], "\n"; });
    ob_start();
    echo "part\n";
    trigger_error('fatal', E_USER_ERROR);
});
--EXPECT--
Status: 500 Internal Server Error
Content-type: text/html; charset=UTF-8

part
boot
request fatal
hearth-worker: the script ended: Fatal
