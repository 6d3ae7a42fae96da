--TEST--
REQUEST_TIME_FLOAT is the time of the request
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

$last = 0;
serve(function () use (&$last) {
    var_dump($_SERVER['REQUEST_TIME_FLOAT'] > $last);
    $last = $_SERVER['REQUEST_TIME_FLOAT'];
    usleep(1000);
});
--EXPECT--
bool(true)
bool(true)
