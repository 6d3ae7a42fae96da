--TEST--
hearth_request() does nothing where the script runs from the top for each request
--FILE--
<?php
var_dump(hearth_request());
hearth_request();
echo $_SERVER['REQUEST_METHOD'], "\n";
--EXPECT--
NULL
GET
