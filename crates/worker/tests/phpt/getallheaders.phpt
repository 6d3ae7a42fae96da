--TEST--
getallheaders() and its aliases
--ARGS--
--resident --request 'POST /' --header 'X-Foo-bar: 1' --header 'Content-Type: text/x' --body hi
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    echo json_encode(getallheaders()), "\n";
    var_dump(getallheaders() === apache_request_headers(), getallheaders() === frankenphp_request_headers());
});
--EXPECT--
{"Content-Length":"2","Content-Type":"text\/x","X-Foo-Bar":"1"}
bool(true)
bool(true)
