--TEST--
A fatal error with nothing sent is a 500
--INI--
display_errors=0
expose_php=0
log_errors=1
error_log=/dev/null
--ARGS--
--head
--FILE--
<?php
require 'nowhere.inc';
--EXPECT--
Status: 500 Internal Server Error
Content-type: text/html; charset=UTF-8
