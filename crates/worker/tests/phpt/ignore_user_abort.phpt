--TEST--
ignore_user_abort() goes back to what the boot left
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

ignore_user_abort(true);
serve(function () { echo ignore_user_abort(), ini_get('ignore_user_abort'), ' '; ignore_user_abort(false); });
--EXPECT--
11 11 
