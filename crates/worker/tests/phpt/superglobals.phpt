--TEST--
$_GET, $_POST, $_COOKIE, $_REQUEST and $_SERVER are those of the request
--INI--
request_order=GP
variables_order=GPCS
--ARGS--
--resident --request 'POST /?a=1' --header 'Content-Type: application/x-www-form-urlencoded' --header 'Cookie: c=d%20e' --header 'X-A: v' --body 'p[]=x&p[]=y' --request 'GET /'
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    echo json_encode([$_GET, $_POST, $_COOKIE, $_REQUEST, $_SERVER['REQUEST_METHOD'], $_SERVER['HTTP_X_A'] ?? null]), "\n";
    $_GET['left'] = $_POST['left'] = $_COOKIE['left'] = $_REQUEST['left'] = $_SERVER['HTTP_X_A'] = 'left';
});
--EXPECT--
[{"a":"1"},{"p":["x","y"]},{"c":"d e"},{"a":"1","p":["x","y"]},"POST","v"]
[[],[],[],[],"GET",null]
