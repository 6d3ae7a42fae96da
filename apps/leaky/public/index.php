<?php

/*
 * Answers one request. Classic mode, php-fpm.
 */

declare(strict_types=1);

use Illuminate\Http\Request;

require __DIR__ . '/../autoload.php';

(require __DIR__ . '/../bootstrap/app.php')->handleRequest(Request::capture());
