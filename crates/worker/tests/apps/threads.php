<?php

/*
 * A worker script that starts a thread while it boots, as some extensions do.
 *
 * Runs in: zygote. Called by: tests/it, and the server's tests/it/refusal.rs.
 */

declare(strict_types=1);

$libc = FFI::cdef(<<<'C'
    int pause(void);
    int pthread_create(unsigned long *thread, void *attributes, int (*start)(void), void *argument);
    int pthread_setname_np(unsigned long thread, const char *name);
    C);
$thread = $libc->new('unsigned long');
$libc->pthread_create(FFI::addr($thread), null, $libc->pause, null);
$libc->pthread_setname_np($thread->cdata, 'telemetry');

while (hearth_handle_request(static fn () => print 'never')) {
    // No worker gets here.
}
