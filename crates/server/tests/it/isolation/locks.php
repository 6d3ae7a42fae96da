<?php

/* Takes locks on what was open before the first request, in the folder TEST_FOLDER, and leaves them. */

declare(strict_types=1);

$file = fopen(getenv('TEST_FOLDER') . '/file', 'c');
$database = new PDO('sqlite:' . getenv('TEST_FOLDER') . '/database');

while (
    hearth_handle_request(static function () use ($file, $database): void {
        match ($_SERVER['REQUEST_URI']) {
            '/file' => flock($file, LOCK_EX),
            '/database' => $database->exec('BEGIN IMMEDIATE'),
            '/both' => flock($file, LOCK_EX) && $database->exec('BEGIN IMMEDIATE') !== false,
            default => null,
        };
        echo 'served';
    })
) {
    continue;
}
