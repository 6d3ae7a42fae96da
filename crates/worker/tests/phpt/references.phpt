--TEST--
References to superglobals that the boot has made are those of each request
--ARGS--
--resident 3 --request 'GET /?a=1' --request 'GET /?a=2'
--FILE--
<?php
require __DIR__ . '/worker.inc';

$get = &$_GET;
$server = &$_SERVER;
serve(function () use (&$get, &$server) {
    echo json_encode($get), $server['QUERY_STRING'], "\n";
    $get['left'] = 1;
});
--EXPECT--
{"a":"1"}a=1
{"a":"2"}a=2
[]
