--TEST--
fastcgi_finish_request() completes the response and the script goes on
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    echo "sent\n";
    $first = fastcgi_finish_request();
    echo "dropped\n";
    flush();
    file_put_contents('php://stderr', json_encode([$first, frankenphp_finish_request(), connection_status()]) . "\n");
});
--EXPECT--
sent
[true,false,0]
sent
[true,false,0]
