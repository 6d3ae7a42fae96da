--TEST--
The stack bears deep recursion
--INI--
memory_limit=512M
--ARGS--
--resident 
--FILE--
<?php
require __DIR__ . '/worker.inc';

function depth(int $n): int { return $n === 0 ? 0 : 1 + array_sum(array_map('depth', [$n - 1])); }
serve(function () { echo depth(10000), "\n"; });
--EXPECT--
10000
