<?php

/*
 * Forks in a request. The child writes and ends, by exit() or by going on as the script does; the parent waits for it.
 *
 * Runs in: worker. Called by: tests/it/children.rs, as a worker script and as a front controller.
 */

declare(strict_types=1);

$libc = FFI::cdef('int fork(void); int waitpid(int pid, int *status, int options);');

$handler = static function () use ($libc): void {
    echo 'before, ';
    if (isset($_GET['flush'])) {
        flush();
    }
    $child = $libc->fork();
    if ($child === 0) {
        echo 'from the child';
        flush();
        error_log('a word of the child');
        file_get_contents('php://input');
        if (isset($_GET['exit'])) {
            exit(7);
        }
        return;
    }
    $status = $libc->new('int');
    $libc->waitpid($child, FFI::addr($status), 0);
    echo 'the child ended with ', $status->cdata >> 8 & 255, ' ', $status->cdata & 127;
};

if (getenv('HEARTH_WORKER')) {
    while (hearth_handle_request($handler)) {
        // The next request.
    }
} else {
    $handler();
}
