<?php

// The index of a folder.

declare(strict_types=1);

(require dirname(__DIR__, 2) . '/cases/dump.php')['all']();
