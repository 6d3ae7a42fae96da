--TEST--
The exception handler of the boot serves every request, even if it exits or throws
--ARGS--
--resident --request 'GET /a' --request 'GET /exit' --request 'GET /throw' --request 'GET /b'
--FILE--
<?php
require __DIR__ . '/worker.inc';

set_exception_handler(function ($e) {
    echo 'handled ', $e->getMessage(), "\n";
    if ($e->getMessage() === '/exit') {
        exit("exit\n");
    }
    if ($e->getMessage() === '/throw') {
        throw new LogicException('again');
    }
});
serve(function () { throw new Exception($_SERVER['REQUEST_URI']); });
--EXPECTF--
handled /a
handled /exit
exit
handled /throw

Fatal error: Uncaught LogicException: again in %s:%d
Stack trace:
#0 [internal function]: {closure%S}(Object(Exception))
#1 {main}
  thrown in %s on line %d
handled /b
