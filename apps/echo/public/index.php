<?php

/*
 * The echo application as a plain script: for classic mode, php-fpm and php -S.
 */

declare(strict_types=1);

require dirname(__DIR__) . '/answer.php';

answer();
