--TEST--
filter_input() reads the request's own input
--ARGS--
--resident --request 'GET /?a=1' --header 'Cookie: c=d' --request 'GET /'
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    $_GET['a'] = 'changed';
    echo json_encode([filter_input(INPUT_GET, 'a'), filter_input(INPUT_SERVER, "REQUEST_URI"), filter_input(INPUT_COOKIE, 'c'), filter_has_var(INPUT_SERVER, 'REQUEST_TIME')]), "\n";
});
--EXPECT--
["1","\/?a=1","d",false]
[null,"\/",null,false]
