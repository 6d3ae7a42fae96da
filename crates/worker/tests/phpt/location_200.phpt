--TEST--
Location with status 200 is a redirection, and an empty Content-Type is none
--INI--
expose_php=0
--ARGS--
--resident --head
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    header('Location: /x');
    http_response_code(200);
    header('Content-Type:');
});
--EXPECT--
Status: 302
Location: /x
