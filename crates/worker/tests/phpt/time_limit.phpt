--TEST--
The time limit ends the request, then the script
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    set_time_limit(1);
    echo "before\n";
    while (true) {
    }
});
--EXPECTF--
before

Fatal error: Maximum execution time of 1 second exceeded in %s on line %d
hearth-worker: the script ended: Fatal
