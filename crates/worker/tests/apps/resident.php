<?php

/*
 * What the worker's tests ask of a resident application. The query says what to do.
 *
 * Runs in: worker. Called by: tests/it.
 */

declare(strict_types=1);

$booted = getmypid();
$served = 0;

$handler = static function () use ($booted, &$served): void {
    $served++;
    require __DIR__ . '/actions.php';
};

while (hearth_handle_request($handler)) {
    if (isset($_GET['stop'])) {
        break;
    }
}

error_log('after the loop');
