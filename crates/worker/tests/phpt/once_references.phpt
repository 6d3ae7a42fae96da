--TEST--
hearth_request(): references to superglobals that the boot has made are those of the request
--ARGS--
--resident 2 --request 'GET /?a=1' --request 'GET /?a=2'
--FILE--
<?php
final class Processor
{
    public array $server;
    public static array $get;
    public function __construct() { $this->server = &$_SERVER; self::$get = &$_GET; }
}
$processor = new Processor();
$request = &$_REQUEST;
hearth_request();
echo $processor->server['QUERY_STRING'], json_encode([Processor::$get, $request]), "\n";
$_GET['b'] = 1;
$processor->server['C'] = 1;
echo json_encode([Processor::$get, $_SERVER['C']]), "\n";
--EXPECT--
a=1[{"a":"1"},{"a":"1"}]
[{"a":"1","b":1},1]
a=2[{"a":"2"},{"a":"2"}]
[{"a":"2","b":1},1]
