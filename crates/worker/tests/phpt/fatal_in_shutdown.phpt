--TEST--
A fatal error in a shutdown function ends the script after the response
--INI--
display_errors=0
log_errors=1
error_log=/dev/null
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    register_shutdown_function(function () { echo "shutdown\n"; trigger_error('late', E_USER_ERROR); });
    echo "body\n";
});
--EXPECT--
body
shutdown
hearth-worker: the script ended: Fatal
