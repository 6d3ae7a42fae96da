<?php

/*
 * Large bodies, in pieces: what PHP needs for them must not grow with them.
 */

declare(strict_types=1);

return [
    'upload' => static function (): void {
        $context = hash_init('sha256');
        $input = fopen('php://input', 'r');
        $size = hash_update_stream($context, $input);
        echo $size, ' ', hash_final($context);
    },
    'download' => static function (): void {
        ob_end_flush();
        $piece = str_repeat("0123456789abcde\n", 4096);
        for ($left = (int) $_GET['bytes']; $left > 0; $left -= strlen($piece)) {
            echo $left < strlen($piece) ? substr($piece, 0, $left) : $piece;
        }
    },
    'small' => static fn () => print('small'),
];
