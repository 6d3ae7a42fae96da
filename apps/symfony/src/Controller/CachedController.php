<?php

declare(strict_types=1);

namespace App\Controller;

use App\CachedValue;
use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Routing\Attribute\Route;

final class CachedController extends AbstractController
{
    #[Route('/cached', name: 'cached', methods: ['GET'])]
    public function show(CachedValue $cached): Response
    {
        $start = microtime(true);
        $value = $cached->get();

        return $this->render('cached.html.twig', [
            'cached' => $value,
            'age' => time() - $value['time'],
            'milliseconds' => (microtime(true) - $start) * 1_000,
        ]);
    }

    #[Route('/cached/forget', name: 'cached_forget', methods: ['POST'])]
    public function forget(CachedValue $cached): Response
    {
        $cached->forget();

        return $this->redirectToRoute('cached', status: Response::HTTP_SEE_OTHER);
    }
}
