--TEST--
frankenphp_handle_request() serves as hearth_handle_request() does; its sign is there while the script boots
--ARGS--
--resident 
--FILE--
<?php
$boot = $_SERVER['FRANKENPHP_WORKER'] . getenv('FRANKENPHP_WORKER');
$handler = function () use ($boot) {
    echo "ok $boot\n";
    var_dump(isset($_SERVER['FRANKENPHP_WORKER']), getenv('FRANKENPHP_WORKER'), isset($_SERVER['OF_PROCESS']));
};
while (frankenphp_handle_request($handler)) {
}
--EXPECT--
ok 11
bool(false)
bool(false)
bool(true)
