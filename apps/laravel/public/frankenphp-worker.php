<?php

/*
 * Answers requests until it is told that there are no more: the loop that Octane runs under this name, without its
 * resets. Classes and settings of the environment stay; the application is made anew for each request, so that no
 * request sees what another one left in a singleton.
 *
 * Runs in: zygote up to the loop, then worker. Called by: hearth-worker.
 */

declare(strict_types=1);

use Illuminate\Http\Request;

require __DIR__ . '/../autoload.php';

$handler = static function (): void {
    (require __DIR__ . '/../bootstrap/app.php')->handleRequest(Request::capture());
};

while (frankenphp_handle_request($handler)) {
    // Each application puts its handlers on top of those before it.
    restore_error_handler();
    restore_exception_handler();
    gc_collect_cycles();
}
