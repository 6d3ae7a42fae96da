<?php

/*
 * Boots the nasty application: one of everything that a request could spoil for the next one.
 *
 * Runs in: zygote (resident), worker (classic), php-fpm. Called by: worker.php, public/index.php.
 */

declare(strict_types=1);

$classes = ['Counting', 'Ancestor', 'Heir', 'Suit', 'Frozen', 'Kernel', 'Booted', 'Memory', 'CLibrary'];
foreach ([...$classes, 'Describe', 'Probe'] as $class) {
    require __DIR__ . "/src/$class.php";
}
require __DIR__ . '/src/handle.php';

$bootedNumber = 7;
$bootedArray = ['one' => 1, 'nested' => ['two' => 2]];
define('BOOTED_AT', 'boot');
Nasty\Booted::boot(__DIR__);
