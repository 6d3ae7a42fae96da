--TEST--
Requests can be taken inside a Fiber, and handlers can use Fibers
--ARGS--
--resident 2
--FILE--
<?php
$outer = new Fiber(function () {
    while (hearth_handle_request(function () {
        $inner = new Fiber(function () { echo Fiber::suspend('a'), "\n"; });
        echo $inner->start();
        $inner->resume('b');
    })) {
    }
});
$outer->start();
--EXPECT--
ab
ab
