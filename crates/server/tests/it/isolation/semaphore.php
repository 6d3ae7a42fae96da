<?php

/*
 * Acquires a semaphore of the boot and leaves it so; /own does it with one of the request, /removed removes that of the boot.
 *
 * Runs in: zygote | worker. Called by: tests/it/isolation.rs.
 */

declare(strict_types=1);

// IPC_PRIVATE: nobody else's.
$semaphore = sem_get(0);

/** Nobody else knows it, so it goes with the request. */
function acquire_own(): void
{
    static $own;

    $own = sem_get(0);
    echo var_export(sem_acquire($own, true), true);
    register_shutdown_function(static function () use ($own): void {
        sem_release($own);
        sem_remove($own);
    });
}

while (
    hearth_handle_request(static function () use ($semaphore): void {
        match ($_SERVER['REQUEST_URI']) {
            '/own' => acquire_own(),
            '/removed' => print(var_export(sem_acquire($semaphore, true) && sem_remove($semaphore), true)),
            default => print(var_export(sem_acquire($semaphore, true), true)),
        };
    })
) {
    continue;
}
