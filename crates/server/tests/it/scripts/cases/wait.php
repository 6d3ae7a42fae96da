<?php

/*
 * Scripts that wait for the test: a file named by X-Gate. What they find is written to the file named by X-Mark.
 */

declare(strict_types=1);

$gate = static function (): void {
    for ($n = 0; $n < 5_000 && !file_exists($_SERVER['HTTP_X_GATE']); ++$n) {
        usleep(2_000);
        clearstatcache();
    }
};

// Complete at once, so that the test never reads a part.
$mark = static function (string $text): void {
    file_put_contents($_SERVER['HTTP_X_MARK'] . '.part', $text);
    rename($_SERVER['HTTP_X_MARK'] . '.part', $_SERVER['HTTP_X_MARK']);
};

$send = static function (): void {
    header('X-Accel-Buffering: no');
    echo 'first';
    ob_flush();
    flush();
    for ($n = 0; $n < 5_000; ++$n) {
        echo str_repeat('x', 8192);
        ob_flush();
        flush();
        if (connection_aborted()) {
            return;
        }
        usleep(1_000);
    }
};

return [
    'flush' => static function () use ($gate): void {
        header('X-Accel-Buffering: no');
        echo 'first';
        ob_flush();
        flush();
        $gate();
        echo ' second';
    },
    'finish' => static function () use ($gate, $mark): void {
        echo 'complete';
        fastcgi_finish_request();
        $gate();
        $mark('went on ' . connection_status());
    },
    'leave' => static function () use ($mark, $send): void {
        ignore_user_abort(false);
        register_shutdown_function(static fn () => $mark('ended by it, ' . connection_status()));
        $send();
        register_shutdown_function(static fn () => $mark('not reached'));
    },
    'leave_ignored' => static function () use ($mark, $send): void {
        ignore_user_abort(true);
        $send();
        $mark('went on, ' . connection_status());
        ignore_user_abort(false);
    },
    // Of two requests with one session the second waits.
    'hold_session' => static function () use ($gate, $mark): void {
        session_id('parity-lock');
        session_start();
        $mark('held');
        $gate();
        $_SESSION['by'] = 'the first';
        echo 'held';
    },
    'release_session' => static function () use ($gate, $mark): void {
        session_id('parity-lock');
        session_start();
        $_SESSION['by'] = 'who released it';
        session_write_close();
        $mark('released');
        $gate();
        echo 'late';
    },
    'share_session' => static function () use ($mark): void {
        $mark('asks');
        session_id('parity-lock');
        session_start();
        echo 'set by ', $_SESSION['by'] ?? 'nobody', file_exists($_SERVER['HTTP_X_GATE']) ? ', gate open' : ', gate closed';
    },
];
