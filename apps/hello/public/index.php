<?php

/*
 * The answer of ../worker.php as a plain script: for classic mode, php-fpm and php -S.
 */

declare(strict_types=1);

header('Content-Type: text/html; charset=UTF-8');

echo 'Hello, world!';
