<?php

/*
 * The same for a classic application.
 *
 * Runs in: worker. Called by: tests/it.
 */

declare(strict_types=1);

$booted = 0;
$served = 0;

require __DIR__ . '/actions.php';
