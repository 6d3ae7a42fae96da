--TEST--
Status lines and Status headers, as php-fpm and nginx read them
--INI--
expose_php=0
--ARGS--
--resident 5 --head
--FILE--
<?php
require __DIR__ . '/worker.inc';

$forms = [
    ['HTTP/1.1 404 Not here'], ['Status: 403 Keep out'], ['HTTP/1.1 200 Fine', 'Status: 418 Tea'],
    ['HTTP/1.1 410 Over', 'Status: 418 Tea'], ['Location: /x'],
];
$n = 0;
serve(function () use ($forms, &$n) {
    foreach ($forms[$n++] as $line) {
        header($line);
    }
});
--EXPECT--
Status: 404 Not here
Content-type: text/html; charset=UTF-8

Status: 403 Keep out
Content-type: text/html; charset=UTF-8

Status: 418 Tea
Content-type: text/html; charset=UTF-8

Status: 410 Over
Content-type: text/html; charset=UTF-8

Status: 302
Location: /x
Content-type: text/html; charset=UTF-8
