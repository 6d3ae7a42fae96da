--TEST--
X-Powered-By in each response if expose_php is on
--INI--
expose_php=1
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () { echo count(headers_list()), "\n"; });
--EXPECT--
1
1
