--TEST--
Globals, statics, ini settings and handlers belong to the script and stay
--INI--
precision=14
--ARGS--
--resident 2
--FILE--
<?php
require __DIR__ . '/worker.inc';

set_error_handler(function ($no, $message) { echo "handler: $message\n"; return true; });
serve(function () {
    static $n = 0;
    $GLOBALS['g'] = ($GLOBALS['g'] ?? 0) + 1;
    echo ++$n, ' ', $GLOBALS['g'], ' ', ini_get('precision'), "\n";
    ini_set('precision', (string) $n);
    trigger_error('hello');
});
--EXPECT--
1 1 14
handler: hello
2 2 1
handler: hello
