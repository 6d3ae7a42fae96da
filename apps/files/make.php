<?php

/*
 * Makes the files that bench/scenarios/files sends, if they are not there: bytes that do not repeat, so that nothing on
 * the way can make them fewer.
 */

declare(strict_types=1);

foreach (['small' => 4 << 10, 'medium' => 40 << 10, 'big' => 10 << 20] as $name => $size) {
    $file = __DIR__ . "/public/$name.bin";
    if (!is_file($file) || filesize($file) !== $size) {
        file_put_contents($file, random_bytes($size));
    }
}
