<?php

/*
 * Output, its buffers and when it leaves.
 */

declare(strict_types=1);

return [
    'nothing' => static function (): void {
    },
    'bytes' => static fn () => print(implode('', array_map(chr(...), range(0, 255)))),
    'large' => static fn () => print(str_repeat('0123456789abcdef', 1 << 16)),
    'pieces' => static function (): void {
        for ($n = 0; $n < 20_000; ++$n) {
            echo $n, "\n";
        }
    },
    'flushed' => static function (): void {
        for ($n = 0; $n < 50; ++$n) {
            echo str_repeat((string) ($n % 10), 1000);
            ob_flush();
            flush();
        }
    },
    'levels' => static function (): void {
        echo ob_get_level();
        ob_start();
        echo 'inner';
        ob_start(strtoupper(...));
        echo 'innermost';
        ob_end_flush();
        $inner = ob_get_clean();
        ob_start();
        echo 'lost';
        ob_end_clean();
        echo strrev($inner);
    },
    'left_open' => static function (): void {
        ob_start(static fn (string $text): string => '<' . $text . '>');
        echo 'a';
        ob_start(static fn (string $text): string => '[' . $text . ']');
        echo 'b';
    },
    'callback_phase' => static function (): void {
        ob_start(static fn (string $text, int $phase): string => $phase . ':' . $text . ';', 4);
        echo 'abc';
        echo 'defgh';
        ob_flush();
        echo 'i';
    },
    'discard_at_end' => static function (): void {
        ob_start(static fn (): string => '');
        echo 'never seen';
    },
    'headers_in_callback' => static function (): void {
        ob_start(static function (string $text): string {
            header('X-From-Callback: ' . strlen($text));

            return $text;
        });
        echo 'text';
    },
    'implicit' => static function (): void {
        ob_implicit_flush();
        echo 'a';
        echo 'b';
        ob_implicit_flush(false);
    },
    'stream' => static function (): void {
        $out = fopen('php://output', 'w');
        fwrite($out, 'by stream ');
        fprintf($out, '%05d', 42);
        fclose($out);
    },
    'file' => static fn () => print("\n" . readfile(__DIR__ . '/../public/direct.php')),
    'rewrite' => static function (): void {
        output_add_rewrite_var('sid', '1');
        echo '<a href="/x">x</a><form action="/y"></form>';
        output_reset_rewrite_vars();
    },
    'zlib' => static function (): void {
        ob_start(ob_gzhandler(...));
        echo str_repeat('compress me ', 100);
    },
    'crc' => static fn () => printf('%08x', crc32(serialize($_GET))),
    'warning' => static function (): void {
        echo 'before ';
        echo $undefined;
        echo ' after';
    },
    'deprecated' => static fn () => print(strlen(utf8_encode("\xe9"))),
    'early_hint_free' => static function (): void {
        // Output before a status: the status is too late once the buffer was sent.
        echo str_repeat('x', 5000);
        http_response_code(404);
    },
];
