<?php

/*
 * Prints the files that a script includes for one GET request: `php included_files.php SCRIPT URI`. What the script
 * prints is dropped. Called by peers.py, for opcache.preload.
 */

declare(strict_types=1);

[, $script, $uri] = $argv;
$_SERVER['REQUEST_METHOD'] = 'GET';
$_SERVER['REQUEST_URI'] = $uri;
$_SERVER['SCRIPT_FILENAME'] = $script;
$_SERVER['SCRIPT_NAME'] = '/' . basename($script);
$_SERVER['HTTP_HOST'] = 'localhost';
$_SERVER['argv'] = [];
$_SERVER['argc'] = 0;

ob_start(static fn (): string => '');
register_shutdown_function(static function (): void {
    // The output goes past the buffer, to the place where the caller reads.
    fwrite(STDOUT, implode("\n", array_diff(get_included_files(), [__FILE__])) . "\n");
});

require $script;
