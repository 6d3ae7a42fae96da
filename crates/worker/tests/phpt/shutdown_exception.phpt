--TEST--
An exception in a shutdown function is reported and the next does not run
--INI--
display_errors=0
log_errors=1
error_log=/dev/null
expose_php=0
output_buffering=0
--ARGS--
--resident 2 --head
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    register_shutdown_function(function () { throw new LogicException('late'); });
    register_shutdown_function(function () { echo "not reached\n"; });
    ob_start();
    echo "body\n";
});
--EXPECT--
Status: 500 Internal Server Error
Content-type: text/html; charset=UTF-8

body
Status: 500 Internal Server Error
Content-type: text/html; charset=UTF-8

body
