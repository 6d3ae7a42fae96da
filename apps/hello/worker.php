<?php

/*
 * The smallest resident application. What stands above the loop is booted once, the handler answers each request.
 *
 * Runs in: worker. Called by: hearth-worker (pool.web.script in hearth.toml).
 */

declare(strict_types=1);

$handler = static function (): void {
    header('Content-Type: text/html; charset=UTF-8');

    echo 'Hello, world!';
};

while (hearth_handle_request($handler)) {
    // The next request; false means that the worker is to end.
}
