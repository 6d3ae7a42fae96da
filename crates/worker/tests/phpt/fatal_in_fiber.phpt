--TEST--
A fatal error inside a Fiber ends the script as elsewhere
--INI--
display_errors=0
log_errors=1
error_log=/dev/null
--ARGS--
--resident 2
--FILE--
<?php
while (hearth_handle_request(function () {
    (new Fiber(function () { echo "in\n"; trigger_error('x', E_USER_ERROR); }))->start();
})) {
}
--EXPECT--
in
hearth-worker: the script ended: Fatal
