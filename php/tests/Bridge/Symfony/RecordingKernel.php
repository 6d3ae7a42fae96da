<?php

declare(strict_types=1);

namespace Hearth\Tests\Bridge\Symfony;

use Hearth\Tests\FakeHost;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\HttpKernel\TerminableInterface;

/** Notes what is asked of it among the events of the host, and answers the path of the request. */
final class RecordingKernel implements HttpKernelInterface, TerminableInterface
{
    /** @var list<Request> */
    public array $requests = [];

    public function handle(Request $request, int $type = self::MAIN_REQUEST, bool $catch = true): Response
    {
        FakeHost::$events[] = 'handle';
        $this->requests[] = $request;

        return new Response($request->getPathInfo() . ' ');
    }

    public function terminate(Request $request, Response $response): void
    {
        FakeHost::$events[] = 'terminate ' . $request->getPathInfo();
    }
}
