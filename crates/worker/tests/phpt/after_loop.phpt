--TEST--
Destructors and code after the loop run at the end
--ARGS--
--resident 
--FILE--
<?php
require __DIR__ . '/worker.inc';

class Last { function __destruct() { file_put_contents('php://stderr', "destructor\n"); } }
$last = new Last();
serve(function () { echo "served\n"; });
file_put_contents('php://stderr', "after\n");
--EXPECT--
served
after
destructor
