<?php

declare(strict_types=1);

namespace Hearth\Bridge\Laravel;

use Hearth\Native\Worker;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Http\Request;

/**
 * Hands each request to an application that was bootstrapped before the first one.
 *
 * The application is not reset between requests: that is the server's affair, with `isolation = "request"`. With
 * `"none"` what a request leaves in it is there for the next one; a script that makes a new application for each
 * request suits that better.
 *
 * Runs in: zygote, up to the first request; worker.
 */
final class Runner
{
    public function __construct(
        private readonly Application $application,
        private readonly Worker $worker = new Worker(),
    ) {
    }

    /** Serves until the server asks the worker to end; the number of requests. */
    public function run(): int
    {
        // A client that leaves ends the sending, not the script.
        ignore_user_abort(true);
        $kernel = $this->application->make(Kernel::class);
        Preparation::of($this->application, $kernel);

        return $this->worker->run(static fn () => self::handle($kernel));
    }

    /** As Application::handleRequest(), which makes its kernel for each request. */
    private static function handle(Kernel $kernel): void
    {
        $request = Request::capture();
        $response = $kernel->handle($request);
        $response->send();
        $kernel->terminate($request, $response);
    }
}
