--TEST--
header_register_callback() holds for one request
--INI--
expose_php=0
--ARGS--
--resident 2 --head
--FILE--
<?php
require __DIR__ . '/worker.inc';

serve(function () {
    static $n = 0;
    if ($n++ === 0) {
        header_register_callback(function () { header('X-Called: 1'); });
    }
    echo "body\n";
});
--EXPECT--
Status: 200
Content-type: text/html; charset=UTF-8
X-Called: 1

body
Status: 200
Content-type: text/html; charset=UTF-8

body
