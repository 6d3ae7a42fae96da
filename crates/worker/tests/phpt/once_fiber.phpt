--TEST--
hearth_request() in a fiber, and exit() there
--ARGS--
--resident 2 --request 'GET /' --request 'GET /?exit'
--FILE--
<?php
$fiber = new Fiber(function () {
    hearth_request();
    echo "in the fiber\n";
    if (isset($_GET['exit'])) {
        exit("by exit\n");
    }
    Fiber::suspend();
    echo "resumed\n";
});
$fiber->start();
echo "behind it\n";
$fiber->resume();
--EXPECT--
in the fiber
behind it
resumed
in the fiber
by exit
