<?php

/*
 * The nasty application, resident. What is booted here is in the image; a request must find it as it was.
 *
 * Runs in: zygote up to the loop, then worker.
 */

declare(strict_types=1);

require __DIR__ . '/boot.php';

while (hearth_handle_request(Nasty\handle(...))) {
    // The next request; false means that the worker is to end.
}
