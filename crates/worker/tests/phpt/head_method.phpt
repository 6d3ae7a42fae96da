--TEST--
HEAD: the script runs, the body is dropped
--INI--
expose_php=0
--ARGS--
--resident --head --request 'HEAD /'
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () { header('X-A: 1'); echo "body"; flush(); echo "more"; });
--EXPECT--
Status: 200
X-A: 1
Content-type: text/html; charset=UTF-8
