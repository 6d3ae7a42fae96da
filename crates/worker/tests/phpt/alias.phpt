--TEST--
frankenphp_handle_request() serves as hearth_handle_request() does
--ARGS--
--resident 
--FILE--
<?php
while (frankenphp_handle_request(function () { echo "ok ", $_SERVER['FRANKENPHP_WORKER'], "\n"; })) {
}
--EXPECT--
ok 1
