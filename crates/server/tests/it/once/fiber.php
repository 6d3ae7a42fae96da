<?php

// Waits in a fiber, which the script resumes once it has the request.

declare(strict_types=1);

$count = 0;
$fiber = new Fiber(static function () use (&$count): void {
    $above = str_repeat('above ', 1000);
    hearth_request();
    echo ++$count, substr($above, 0, 6);
    Fiber::suspend();
    echo 'resumed ';
    if ($_SERVER['QUERY_STRING'] === 'exit') {
        exit('exit');
    }
});
$fiber->start();
echo 'script ';
$fiber->resume();
echo 'end';
