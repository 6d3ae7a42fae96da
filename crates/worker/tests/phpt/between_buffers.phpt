--TEST--
Output buffers that are opened between two requests end before the next one
--INI--
output_buffering=4096
--ARGS--
--resident 3
--FILE--
<?php
$n = 0;
while (hearth_handle_request(function () use (&$n) { echo 'request ', ++$n, ' at level ', ob_get_level(), "\n"; })) {
    error_log('level ' . ob_get_level());
    echo "bare $n\n";
    ob_start();
    echo "buffered $n\n";
    ob_start(fn (string $text): string => strtoupper($text));
    echo "inner $n\n";
    if ($n === 2) {
        ob_end_flush();
        error_log('taken ' . ob_get_clean());
    }
}
ob_start();
echo "after the last\n";
--EXPECT--
request 1 at level 1
level 0
bare 1
buffered 1
INNER 1
request 2 at level 1
level 0
bare 2
taken buffered 2
INNER 2
request 3 at level 1
level 0
bare 3
buffered 3
INNER 3
after the last
