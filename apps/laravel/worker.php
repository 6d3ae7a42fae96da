<?php

/*
 * The worker script of an application that stays: it is bootstrapped once, and each request finds it as it was then.
 * For `isolation = "request"`; public/frankenphp-worker.php makes the application anew for each request instead.
 *
 * Runs in: zygote up to the first request, then worker. Called by: hearth-worker.
 */

declare(strict_types=1);

use Hearth\Bridge\Laravel\Runner;

require __DIR__ . '/autoload.php';
// Where Composer installs the bridge, its autoloader is the one above.
require_once __DIR__ . '/../../php/autoload.php';

(new Runner(require __DIR__ . '/bootstrap/app.php'))->run();
