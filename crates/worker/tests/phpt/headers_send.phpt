--TEST--
headers_send(): interim responses, then the final head
--INI--
expose_php=0
output_buffering=4096
--ARGS--
--resident --head
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    header('Link: </a.css>; rel=preload');
    var_dump(headers_send(103), http_response_code(), headers_sent());
    header_remove('Link');
    var_dump(headers_send(201), headers_sent());
    try {
        headers_send(7);
    } catch (ValueError $e) {
        echo $e->getMessage(), "\n";
    }
});
--EXPECT--
Status: 103
Link: </a.css>; rel=preload

Status: 201
Content-type: text/html; charset=UTF-8

int(1)
int(200)
bool(false)
int(0)
bool(true)
headers_send(): Argument #1 ($status) must be between 100 and 599
