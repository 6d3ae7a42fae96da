--TEST--
A script runs once, as a classic request
--FILE--
<?php
echo PHP_SAPI, " ", php_sapi_name(), " ", $_SERVER["REQUEST_METHOD"], " ", $_SERVER["PHP_SELF"], "\n";
--EXPECT--
hearth hearth GET /classic_body.php
