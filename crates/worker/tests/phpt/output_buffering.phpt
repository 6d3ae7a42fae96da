--TEST--
output_buffering opens a buffer for each request
--INI--
output_buffering=4096
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () { echo ob_get_level(), "\n"; ob_end_flush(); });
--EXPECT--
1
1
