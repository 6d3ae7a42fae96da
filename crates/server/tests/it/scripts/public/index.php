<?php

/*
 * The front controller of the parity suite: runs the case that the header X-Run names, "file/case". The same file runs
 * under php-fpm, in classic mode, and in the handler of worker.php.
 */

declare(strict_types=1);

ini_set('display_errors', isset($_SERVER['HTTP_X_DISPLAY']) ? '1' : '0');

[$file, $case] = explode('/', $_SERVER['HTTP_X_RUN'] ?? 'dump/all', 2);

(require dirname(__DIR__) . '/cases/' . basename($file) . '.php')[$case]();
