<?php

/*
 * Boots the application once and answers every request with it, resetting nothing: whatever a request leaves in it, the
 * next one would find, were the worker not put back.
 *
 * Runs in: zygote up to the loop, then worker. Called by: hearth-worker.
 */

declare(strict_types=1);

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Http\Request;

require __DIR__ . '/autoload.php';

$app = require __DIR__ . '/bootstrap/app.php';
$app->make(Kernel::class)->bootstrap();

$handler = static function () use ($app): void {
    $app->handleRequest(Request::capture());
};

while (hearth_handle_request($handler)) {
    // The next request; false means that the worker is to end.
}
