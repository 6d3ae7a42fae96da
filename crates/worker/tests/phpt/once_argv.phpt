--TEST--
hearth_request(): $_SERVER[argv] is made of the query string, $argv is what the boot has made of it
--INI--
register_argc_argv=1
--ARGS--
--resident 2 --request 'GET /?a+b'
--FILE--
<?php
$argv[] = 'kept';
hearth_request();
echo json_encode($_SERVER['argv']), ' ', $_SERVER['argc'], ' ', end($argv), "\n";
--EXPECT--
["a","b"] 2 kept
[] 0 kept
