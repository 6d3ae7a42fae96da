--TEST--
What the boot prints is logged and not sent
--INI--
expose_php=0
output_buffering=0
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

echo "booting\n";
header('X-Boot: 1');
serve(function () { echo json_encode(headers_list()), "\n"; });
--EXPECT--
booting
[]
[]
