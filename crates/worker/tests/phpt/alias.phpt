--TEST--
frankenphp_handle_request() is the same function
--ARGS--
--resident 
--FILE--
<?php
while (frankenphp_handle_request(function () { echo "ok ", $_SERVER['FRANKENPHP_WORKER'], "\n"; })) {
}
--EXPECT--
ok 1
