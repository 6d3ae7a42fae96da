--TEST--
hearth_request(): what the boot adds to $_SERVER is there below, and nothing that a request may have
--ENV--
FROM_ENV=environment
--ARGS--
--resident 2 --request 'GET /' --header 'X-A: client' --request 'GET /' --header 'X-A: client'
--FILE--
<?php
$_SERVER['APP_ENV'] = 'boot';
$_SERVER['FROM_ENV'] = 'changed';
$_SERVER['LIST'] = ['a' => 1];
$_SERVER['REQUEST_METHOD'] = 'BOOT';
$_SERVER['HTTP_HOST'] = 'boot';
$_SERVER['HTTP_X_A'] = 'boot';
$_SERVER['HTTPS'] = 'on';
$_SERVER['PHP_AUTH_USER'] = 'boot';
hearth_request();
echo json_encode(array_map(fn ($name) => $_SERVER[$name] ?? null, [
    'APP_ENV', 'FROM_ENV', 'LIST', 'REQUEST_METHOD', 'HTTP_HOST', 'HTTP_X_A', 'HTTPS', 'PHP_AUTH_USER',
])), "\n";
$_SERVER['LIST']['a']++;
$_SERVER['APP_ENV'] = 'request';
--EXPECT--
["boot","changed",{"a":1},"GET",null,"client",null,null]
["boot","changed",{"a":1},"GET",null,"client",null,null]
