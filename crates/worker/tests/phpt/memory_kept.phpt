--TEST--
ini_set(memory_limit) stays, and memory_get_peak_usage() is the request's
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    static $n = 0;
    if ($n++ === 0) {
        $big = str_repeat('x', 32 << 20);
    }
    var_dump(memory_get_peak_usage() > 32 << 20);
});
--EXPECT--
bool(true)
bool(false)
