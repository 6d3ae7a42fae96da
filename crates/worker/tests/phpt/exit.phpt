--TEST--
exit() ends the request: its text and output are sent, shutdown functions run, the worker goes on
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    register_shutdown_function(function () { echo "shutdown\n"; exit("out\n"); });
    register_shutdown_function(function () { echo "not reached\n"; });
    ob_start();
    echo "buffered\n";
    try {
        exit("bye\n");
    } finally {
        echo "finally is not run\n";
    }
});
--EXPECT--
buffered
bye
shutdown
out
buffered
bye
shutdown
out
