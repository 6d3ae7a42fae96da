<?php

/*
 * The nasty application, classic or under php-fpm: it boots for each request, so its answers are the right ones.
 */

declare(strict_types=1);

require __DIR__ . '/../boot.php';

Nasty\handle();
