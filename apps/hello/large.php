<?php

/*
 * The resident application of worker.php with 200 MiB of arrays in its image: what size costs that no request uses.
 *
 * Runs in: worker. Called by: hearth-worker (pool.web.script), for bench/.
 */

declare(strict_types=1);

ini_set('memory_limit', '512M');

// 128 KiB each, all of it used: PHP makes room for powers of two.
$booted = [];
for ($number = 0; $number < 1_600; ++$number) {
    $booted[] = range(1, 8_192);
}

require __DIR__ . '/worker.php';
