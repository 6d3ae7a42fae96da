--TEST--
An exception while booting is logged
--INI--
display_errors=0
log_errors=0
--ARGS--
--resident 
--FILE--
<?php
throw new LogicException("no database");
--EXPECTF--
%AUncaught LogicException: no database%A
hearth-worker: the script ended: Exception
