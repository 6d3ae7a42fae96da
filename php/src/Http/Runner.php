<?php

declare(strict_types=1);

namespace Hearth\Http;

use Hearth\Native\Worker;
use Nyholm\Psr7\Factory\Psr17Factory;
use Psr\Http\Message\ServerRequestFactoryInterface;
use Psr\Http\Message\StreamFactoryInterface;
use Psr\Http\Message\UriFactoryInterface;
use Psr\Http\Server\RequestHandlerInterface;

/**
 * Runs a PSR-15 handler: for each request in a resident pool, for the one request there is anywhere else (php-fpm,
 * classic pools), so that the same script serves both.
 */
final class Runner
{
    private readonly RequestReader $reader;
    private readonly ResponseWriter $writer;

    public function __construct(
        private readonly RequestHandlerInterface $handler,
        ServerRequestFactoryInterface $requests,
        UriFactoryInterface $uris,
        StreamFactoryInterface $streams,
        private readonly Worker $worker = new Worker(),
    ) {
        $this->reader = new RequestReader($requests, $uris, $streams);
        $this->writer = new ResponseWriter();
    }

    /** With the messages of nyholm/psr7. */
    public static function create(RequestHandlerInterface $handler): self
    {
        $factory = new Psr17Factory();

        return new self($handler, $factory, $factory, $factory);
    }

    /** @return int Number of requests served. */
    public function run(): int
    {
        if (!Worker::isAvailable()) {
            $this->serve();

            return 1;
        }

        // A client that leaves ends the sending, not the script.
        ignore_user_abort(true);

        return $this->worker->run($this->serve(...));
    }

    private function serve(): void
    {
        $request = $this->reader->read();
        $this->writer->write($this->handler->handle($request), $request->getMethod());
    }
}
