<?php

declare(strict_types=1);

require __DIR__ . '/respond.php';

while (hearth_handle_request(respond(...))) {
    // The next request.
}
