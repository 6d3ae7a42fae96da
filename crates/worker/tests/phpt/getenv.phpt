--TEST--
getenv() sees the parameters of the request, then the environment
--ARGS--
--resident --request 'GET /u' --header 'X-A: v'
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    var_dump(getenv('REQUEST_URI'), getenv('OF_PROCESS'), getenv()['HTTP_X_A'] ?? null, getenv('HTTP_X_A', true));
});
--EXPECT--
string(2) "/u"
string(1) "1"
string(1) "v"
bool(false)
