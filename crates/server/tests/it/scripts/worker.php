<?php

// The worker script of the parity suite: each request runs the front controller.

declare(strict_types=1);

$handler = static function (): void {
    require __DIR__ . '/public/index.php';
};

while (hearth_handle_request($handler) && !isset($GLOBALS['over'])) {
    // Without isolation handlers would outlive the request; with it this is never seen.
    set_error_handler(null);
    set_exception_handler(null);
}
