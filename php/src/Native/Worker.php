<?php

declare(strict_types=1);

namespace Hearth\Native;

/**
 * The loop of a resident worker, typed. Knows nothing of HTTP messages: while the handler runs, the request is in the
 * superglobals and the response is what is printed.
 *
 * Runs in: zygote, up to the first request; worker.
 */
final class Worker
{
    /**
     * Whether this process serves a resident pool. The functions alone say too little: they exist in classic pools too.
     */
    public static function isAvailable(): bool
    {
        return function_exists('hearth_handle_request')
            && (bool) ($_SERVER['HEARTH_WORKER'] ?? getenv('HEARTH_WORKER'));
    }

    /**
     * Serves requests until the server asks the worker to end.
     *
     * @param callable(): void $handler Answers one request.
     * @param null|callable(): void $afterwards Called once the response is complete and the client has it all; for
     *     work that nobody waits for. With isolation "none" called too where exit() or an uncaught exception ended the
     *     handler, without the `finally` blocks of what it was in; a fatal error ends the worker there.
     *
     * @return int Number of requests served.
     *
     * @throws WorkerError Outside of a resident pool.
     */
    public function run(callable $handler, ?callable $afterwards = null): int
    {
        if (!self::isAvailable()) {
            throw WorkerError::notInWorker();
        }

        for ($served = 0; hearth_handle_request($handler); ++$served) {
            if (null !== $afterwards) {
                // With isolation "request" the response is open until the script asks for the next request.
                if (function_exists('fastcgi_finish_request')) {
                    fastcgi_finish_request();
                }
                $afterwards();
            }
        }

        return $served;
    }
}
