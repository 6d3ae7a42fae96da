--TEST--
Status and headers start afresh
--INI--
expose_php=0
output_buffering=4096
--ARGS--
--resident 2 --head
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    echo http_response_code(), ' ', count(headers_list()), ' ', json_encode(headers_sent()), "\n";
    http_response_code(404);
    header('X-A: 1');
    header('X-A: 2', false);
});
--EXPECT--
Status: 404
X-A: 1
X-A: 2
Content-type: text/html; charset=UTF-8

200 0 false
Status: 404
X-A: 1
X-A: 2
Content-type: text/html; charset=UTF-8

200 0 false
