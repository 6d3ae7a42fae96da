--TEST--
apache_response_headers() and its alias
--INI--
expose_php=0
output_buffering=4096
--ARGS--
--resident 
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    header('X-A:  1');
    echo json_encode(apache_response_headers()), ' ', json_encode(frankenphp_response_headers()), "\n";
});
--EXPECT--
{"X-A":"1"} {"X-A":"1"}
