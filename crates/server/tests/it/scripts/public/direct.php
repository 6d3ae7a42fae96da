<?php

// A script that the URL names.

declare(strict_types=1);

(require dirname(__DIR__) . '/cases/dump.php')['all']();
