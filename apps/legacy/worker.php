<?php

/*
 * Runs an application that was never written for it in a resident worker: its library is loaded once, then its front
 * controller is included for each request. It defines constants, declares functions of the chosen theme, keeps the
 * current user in statics and everything else in globals, and calls exit() where it is done. Only a worker that is
 * put back after each request can run it.
 *
 * Runs in: zygote up to the loop, then worker.
 */

require __DIR__ . '/lib/load.php';

function legacy_request()
{
    require __DIR__ . '/public/index.php';
}

while (hearth_handle_request('legacy_request')) {
    // The next request; false means that the worker is to end.
}
