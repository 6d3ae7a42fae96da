<?php

declare(strict_types=1);

namespace App\Controller;

use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Routing\Attribute\Route;

final class SlowController extends AbstractController
{
    /** `ms`: time to sleep in milliseconds, 0 to 60 000, default 2 000. */
    #[Route('/slow', name: 'slow', methods: ['GET'])]
    public function __invoke(Request $request): Response
    {
        $milliseconds = max(0, min(60_000, $request->query->getInt('ms', 2_000)));
        usleep($milliseconds * 1_000);

        return $this->render('slow.html.twig', ['milliseconds' => $milliseconds]);
    }
}
