--TEST--
hearth_request(): what stands above is booted, what stands below is the request
--INI--
expose_php=0
register_argc_argv=0
--ARGS--
--resident 2 --head --request 'GET /?a=1' --header 'Cookie: c=2' --request 'POST /?a=2' --header 'Content-Type: application/x-www-form-urlencoded' --body p=3
--FILE--
<?php
$read = fn () => [$_GET, $_POST, $_COOKIE, $_REQUEST, $_FILES, isset($_SERVER['REMOTE_ADDR'])];
$above = [...$read(), $argc, count($argv)];
hearth_request();
header('X-Below: 1');
echo json_encode($above), "\n";
echo json_encode([$_GET, $_POST, $_COOKIE, $_REQUEST, $_FILES, $_SERVER['REQUEST_METHOD']]), "\n";
echo json_encode([isset($argc), isset($argv), isset($_SERVER['argv'])]), "\n";
return;
--EXPECT--
Status: 200
X-Below: 1
Content-type: text/html; charset=UTF-8

[[],[],[],[],[],false,1,1]
[{"a":"1"},[],{"c":"2"},{"a":"1"},[],"GET"]
[false,false,false]
Status: 200
X-Below: 1
Content-type: text/html; charset=UTF-8

[[],[],[],[],[],false,1,1]
[{"a":"2"},{"p":"3"},[],{"a":"2","p":"3"},[],"POST"]
[false,false,false]
