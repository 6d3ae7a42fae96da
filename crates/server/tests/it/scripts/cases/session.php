<?php

/*
 * PHP's own sessions. The id is given, for PHP's would be another each time.
 */

declare(strict_types=1);

$show = static function (): void {
    echo session_status(), ' ', session_name(), ' ', strlen((string) session_id()), ' ', json_encode($_SESSION ?? null);
};

return [
    'count' => static function () use ($show): void {
        session_start();
        $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
        $show();
    },
    'given_id' => static function () use ($show): void {
        session_id('parity-given-id');
        session_start();
        $show();
    },
    'look' => static function () use ($show): void {
        session_start(['read_and_close' => true]);
        $show();
    },
    'none' => static fn () => $show(),
    'destroy' => static function () use ($show): void {
        session_start();
        session_destroy();
        $show();
    },
    'exit' => static function (): void {
        session_start();
        $_SESSION['left'] = 'by exit';
        exit('left');
    },
    'fatal' => static function (): void {
        session_start();
        $_SESSION['left'] = 'by a fatal error';
        eval('class TwiceS {} class TwiceS {}');
    },
    'public' => static function () use ($show): void {
        session_id('parity-public');
        session_cache_limiter('public');
        session_start();
        $show();
        session_write_close();
        session_cache_limiter('nocache');
    },
    'params' => static function () use ($show): void {
        session_id('parity-params');
        $before = session_get_cookie_params();
        session_set_cookie_params(['path' => '/p', 'secure' => true, 'httponly' => true, 'samesite' => 'Lax']);
        session_start();
        $show();
        session_write_close();
        session_set_cookie_params($before);
    },
    'twice' => static function () use ($show): void {
        session_start();
        $_SESSION['a'] = 1;
        session_write_close();
        session_start();
        $_SESSION['b'] = 2;
        $show();
    },
    'cancel_uploads' => static function () use ($show): void {
        session_start();
        $_SESSION['upload_progress_p'] = ['cancel_upload' => true];
        $show();
    },
    'progress' => static function (): void {
        session_start();
        $progress = $_SESSION['upload_progress_p'] ?? [];
        array_walk_recursive($progress, static function (mixed &$value, string|int $key): void {
            $value = match ($key) {
                'start_time' => 'a moment',
                'tmp_name' => is_string($value) ? 'a file' : $value,
                default => $value,
            };
        });
        echo json_encode($progress, JSON_PRETTY_PRINT);
    },
    'after_output' => static function (): void {
        echo 'output';
        ob_flush();
        flush();
        var_dump(session_start());
    },
];
