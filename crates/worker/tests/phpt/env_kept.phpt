--TEST--
$_ENV is left as the boot made it
--INI--
variables_order=EGPCS
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

$_ENV['SECRET'] = 'set while booting';
serve(function () { echo $_ENV['SECRET'], "\n"; });
--EXPECT--
set while booting
set while booting
