--TEST--
error_get_last() starts empty
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () { echo error_get_last()['message'] ?? 'none', "\n"; @trigger_error('left'); });
--EXPECT--
none
none
