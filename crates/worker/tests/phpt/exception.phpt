--TEST--
An uncaught exception ends the request as a fatal error does, the worker goes on
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

serve(function () {
    register_shutdown_function(function () { echo "shutdown ", error_get_last()['type'], "\n"; });
    throw new LogicException('oops');
});
--EXPECT--
Status: 500 Internal Server Error
Content-type: text/html; charset=UTF-8

shutdown 1
Status: 500 Internal Server Error
Content-type: text/html; charset=UTF-8

shutdown 1
