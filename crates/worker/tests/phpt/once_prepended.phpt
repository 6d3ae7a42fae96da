--TEST--
hearth_request() in a file that is prepended: the script below it is the request, and the appended file is part of it
--INI--
auto_prepend_file={PWD}/once_prepended.inc
auto_append_file={PWD}/once_appended.inc
--ARGS--
--resident 2 --request 'GET /?a=1' --request 'GET /?a=2'
--FILE--
<?php
echo $prepended, ' ', $_GET['a'], "\n";
--EXPECT--
1 1
appended 1
1 2
appended 2
