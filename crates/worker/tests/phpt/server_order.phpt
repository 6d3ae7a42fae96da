--TEST--
$_SERVER: environment, parameters, PHP_SELF, authentication, time
--INI--
register_argc_argv=0
--ARGS--
--resident --request 'GET /server_order.php/info?x=1' --header 'X-A: 1' --header 'Authorization: Basic bWU6cHc='
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    $names = array_keys($_SERVER);
    $at = fn($name) => array_search($name, $names, true);
    var_dump($at('OF_PROCESS') < $at('SERVER_SOFTWARE'));
    echo implode(' ', array_slice($names, $at('QUERY_STRING'))), "\n";
    echo $_SERVER['PHP_AUTH_USER'], ' ', $_SERVER['PHP_AUTH_PW'], ' ', $_SERVER['PHP_SELF'], ' ', $_SERVER['PATH_INFO'], "\n";
    var_dump(is_float($_SERVER['REQUEST_TIME_FLOAT']), is_int($_SERVER['REQUEST_TIME']));
});
--EXPECT--
bool(true)
QUERY_STRING HTTP_X_A HTTP_AUTHORIZATION PHP_SELF PHP_AUTH_USER PHP_AUTH_PW REQUEST_TIME_FLOAT REQUEST_TIME
me pw /server_order.php/info /info
bool(true)
bool(true)
