--TEST--
Output buffers left open are flushed at the end
--INI--
output_buffering=0
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    echo ob_get_level();
    ob_start();
    ob_start(fn($text) => strtoupper($text));
    echo "text\n";
});
--EXPECT--
0TEXT
0TEXT
