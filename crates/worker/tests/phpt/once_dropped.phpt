--TEST--
hearth_request(): what stands above in output and headers is dropped, and named with its file and line
--INI--
expose_php=0
output_buffering=4096
--ARGS--
--resident --head
--FILE--
<?php
printf('');
echo "above\n";
header('X-Above: 1');
ob_start();
echo "above in a buffer\n";
hearth_request();
echo ob_get_level(), json_encode(headers_list()), "\n";
--EXPECTF--
above
above in a buffer
the output above hearth_request() belongs to no request and is dropped (the first is in %sonce_dropped.php:3): move it below the call
the header above hearth_request() belongs to no request and is dropped (the first is in %sonce_dropped.php:4): move it below the call
Status: 200
Content-type: text/html; charset=UTF-8

1[]
