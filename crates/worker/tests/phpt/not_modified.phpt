--TEST--
304 has no Content-Type
--INI--
expose_php=0
--ARGS--
--resident --head
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () { http_response_code(304); header('ETag: "x"'); });
--EXPECT--
Status: 304
ETag: "x"
