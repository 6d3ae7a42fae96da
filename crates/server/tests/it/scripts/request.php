<?php

// The front controller of the parity suite, for which nothing is booted.

declare(strict_types=1);

hearth_request();

require __DIR__ . '/public/index.php';
