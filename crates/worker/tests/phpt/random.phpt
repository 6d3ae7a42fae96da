--TEST--
mt_rand() is seeded anew, lcg_value() goes on
--ARGS--
--resident 3
--FILE--
<?php
require __DIR__ . '/worker.inc';

$seen = [];
serve(function () use (&$seen) {
    $seen[] = mt_rand();
    $seen[] = @lcg_value(); // deprecated since 8.4
    mt_srand(1);
    echo count(array_unique($seen)), "\n";
});
--EXPECT--
2
4
6
