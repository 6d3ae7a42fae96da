<?php

/*
 * The echo application, resident. Runs in: worker.
 */

declare(strict_types=1);

require __DIR__ . '/answer.php';

while (hearth_handle_request(answer(...))) {
    // The next request; false means that the worker is to end.
}
