--TEST--
umask() of a request ends with it
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

umask(0022);
serve(function () { printf("%04o\n", umask()); umask(0777); });
--EXPECT--
0022
0022
