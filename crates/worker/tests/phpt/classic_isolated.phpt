--TEST--
Nothing of a classic request is left in the next
--ARGS--
--request 'GET /' --request 'GET /'
--FILE--
<?php
static $n = 0;
ini_set('precision', '5');
echo ++$n, ' ', defined('SEEN') ? 'seen' : 'new', "\n";
define('SEEN', 1);
--EXPECT--
1 new
1 new
