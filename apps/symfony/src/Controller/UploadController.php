<?php

declare(strict_types=1);

namespace App\Controller;

use App\Form\UploadType;
use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\File\UploadedFile;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Routing\Attribute\Route;

/**
 * A form with a file. The file is hashed from where PHP put it, so its size does not show in the memory of the worker.
 */
final class UploadController extends AbstractController
{
    #[Route('/upload', name: 'upload', methods: ['GET', 'POST'])]
    public function __invoke(Request $request): Response
    {
        $form = $this->createForm(UploadType::class);
        $form->handleRequest($request);
        $submitted = $form->isSubmitted();
        $valid = $submitted && $form->isValid();
        $file = $valid ? $form->get('file')->getData() : null;

        return $this->render('upload.html.twig', [
            'form' => $form->createView(),
            'limit' => UploadedFile::getMaxFilesize(),
            'note' => $valid ? $form->get('note')->getData() : null,
            'upload' => $file instanceof UploadedFile ? [
                'name' => $file->getClientOriginalName(),
                'size' => $file->getSize(),
                'sha256' => hash_file('sha256', $file->getPathname()),
            ] : null,
            'memory' => memory_get_peak_usage(true),
        ], new Response(status: $submitted && !$valid ? Response::HTTP_UNPROCESSABLE_ENTITY : Response::HTTP_OK));
    }
}
