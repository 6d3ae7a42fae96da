<?php

/*
 * Boots the closure that the calling script returns and runs what the closure makes, by symfony/runtime. The script is
 * included a second time for that; its own require of this file is then without effect.
 *
 * APP_RUNTIME names the runtime. Without it Hearth's is taken in a process of Hearth, Symfony's anywhere else.
 */

declare(strict_types=1);

use Hearth\Bridge\Symfony\Runtime;
use Symfony\Component\Runtime\SymfonyRuntime;

if (true === require_once __DIR__ . '/autoload.php') {
    return;
}

$closure = require $_SERVER['SCRIPT_FILENAME'];

$class = $_SERVER['APP_RUNTIME'] ?? $_ENV['APP_RUNTIME']
    ?? (function_exists('hearth_handle_request') ? Runtime::class : SymfonyRuntime::class);
$runtime = new $class(['project_dir' => __DIR__]);

[$factory, $arguments] = $runtime->getResolver($closure)->resolve();

exit($runtime->getRunner($factory(...$arguments))->run());
