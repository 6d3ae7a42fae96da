--TEST--
Endless recursion is an exception where the engine checks its stack, in the script and in a fiber
--SKIPIF--
<?php
if (PHP_VERSION_ID < 80300) {
    die('skip the engine checks its stack from 8.3 on');
}
?>
--INI--
memory_limit=-1
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

function endless(): void { array_map('endless', [1]); }
function attempt(): void
{
    try {
        endless();
    } catch (Error $e) {
        echo substr($e->getMessage(), 0, 26), "\n";
    }
}
serve(function () {
    attempt();
    (new Fiber('attempt'))->start();
});
--EXPECT--
Maximum call stack size of
Maximum call stack size of
Maximum call stack size of
Maximum call stack size of
