<?php

declare(strict_types=1);

require __DIR__ . '/draw.php';

while (hearth_handle_request(draw(...))) {
    // The next request.
}
