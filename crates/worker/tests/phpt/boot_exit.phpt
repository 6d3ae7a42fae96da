--TEST--
exit() while booting
--ARGS--
--resident 
--FILE--
<?php
exit(3);
--EXPECT--
hearth-worker: the script ended: Exit
