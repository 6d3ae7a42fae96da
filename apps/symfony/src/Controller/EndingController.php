<?php

declare(strict_types=1);

namespace App\Controller;

use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Attribute\AsController;
use Symfony\Component\Routing\Attribute\Route;

/**
 * The ways in which a request can end badly. Each ends this request only; the next one is answered as if nothing
 * had happened.
 */
#[AsController]
final class EndingController
{
    #[Route('/throw', name: 'throw', methods: ['GET'])]
    public function throwException(): never
    {
        throw new \RuntimeException('This page throws, on purpose.');
    }

    #[Route('/exit', name: 'exit', methods: ['GET'])]
    public function exitAfterOutput(): never
    {
        header('Content-Type: text/plain; charset=UTF-8');
        echo "This page called exit() after this line.\n";

        exit;
    }

    /** A fatal error that no handler can catch: more memory than any limit allows. */
    #[Route('/fatal', name: 'fatal', methods: ['GET'])]
    public function fatal(): Response
    {
        // Without a limit PHP would end the process, not the request.
        ini_set('memory_limit', '128M');

        return new Response((string) strlen(str_repeat('x', \PHP_INT_MAX >> 1)));
    }
}
