<?php

/*
 * Loads Laravel as Debian packages it; where Composer installs it, this is vendor/autoload.php.
 *
 * Runs in: zygote (resident), worker (classic), php-fpm, console.
 */

declare(strict_types=1);

require_once '/usr/share/php/Illuminate/autoload.php';
