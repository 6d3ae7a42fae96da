--TEST--
Tick functions of a request end with it
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

declare(ticks=1);
serve(function () {
    static $n = 0;
    if ($n++ === 0) {
        register_tick_function(function () { echo 't'; });
    }
    $a = 1;
    echo "\n";
});
--EXPECT--
tt
t
