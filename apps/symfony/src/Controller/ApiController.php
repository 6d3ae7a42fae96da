<?php

declare(strict_types=1);

namespace App\Controller;

use Symfony\Component\HttpFoundation\File\UploadedFile;
use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpKernel\Attribute\AsController;
use Symfony\Component\Routing\Attribute\Route;

/**
 * JSON without session and templates. Not an AbstractController: `hello` is what the benchmark measures.
 */
#[AsController]
final class ApiController
{
    #[Route('/api/hello', name: 'api_hello', methods: ['GET'])]
    public function hello(): JsonResponse
    {
        return new JsonResponse(['message' => 'Hello, world!']);
    }

    /** The request as Symfony sees it, to compare servers. */
    #[Route('/api/request', name: 'api_request')]
    public function request(Request $request): JsonResponse
    {
        $files = $request->files->all();
        array_walk_recursive($files, static function (mixed &$file): void {
            $file = $file instanceof UploadedFile ? self::describeFile($file) : null;
        });

        return new JsonResponse([
            'method' => $request->getMethod(),
            'uri' => $request->getUri(),
            'base' => $request->getBaseUrl(),
            'path' => $request->getPathInfo(),
            'client' => $request->getClientIp(),
            'protocol' => $request->getProtocolVersion(),
            'secure' => $request->isSecure(),
            'user' => $request->getUser(),
            'headers' => $request->headers->all(),
            'query' => $request->query->all(),
            'post' => $request->request->all(),
            'cookies' => $request->cookies->all(),
            'files' => $files,
            'content_sha256' => hash('sha256', $request->getContent()),
        ], headers: ['Cache-Control' => 'no-store']);
    }

    /** @return array{name: string, type: string, error: int, size: int|false, sha256: string|false} */
    private static function describeFile(UploadedFile $file): array
    {
        return [
            'name' => $file->getClientOriginalName(),
            'type' => $file->getClientMimeType(),
            'error' => $file->getError(),
            'size' => $file->isValid() ? $file->getSize() : false,
            'sha256' => $file->isValid() ? hash_file('sha256', $file->getPathname()) : false,
        ];
    }
}
