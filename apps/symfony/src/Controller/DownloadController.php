<?php

declare(strict_types=1);

namespace App\Controller;

use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\StreamedResponse;
use Symfony\Component\HttpKernel\Attribute\AsController;
use Symfony\Component\Routing\Attribute\Route;

/**
 * A download made while it is sent, in constant memory.
 */
#[AsController]
final class DownloadController
{
    private const LINE = "The quick brown fox jumps over the lazy dog; hearth keeps warm.\n";
    private const CHUNK = 65_536;
    private const LARGEST = 4_294_967_296;

    /**
     * `size`: bytes, up to 4 GiB, default 10 MiB. `length=0` leaves Content-Length out, as where the size is not
     * known in advance.
     */
    #[Route('/download', name: 'download', methods: ['GET'])]
    public function __invoke(Request $request): StreamedResponse
    {
        $size = max(0, min(self::LARGEST, $request->query->getInt('size', 10_485_760)));
        $response = new StreamedResponse(static fn () => self::send($size), 200, [
            'Content-Type' => 'text/plain; charset=US-ASCII',
            'Content-Disposition' => 'attachment; filename="hearth.txt"',
            // Asks nginx, too, to pass on what is flushed.
            'X-Accel-Buffering' => 'no',
        ]);
        if ($request->query->getBoolean('length', true)) {
            $response->headers->set('Content-Length', (string) $size);
        }

        return $response;
    }

    private static function send(int $size): void
    {
        $chunk = str_repeat(self::LINE, intdiv(self::CHUNK, strlen(self::LINE)));
        for ($left = $size; $left > 0 && !connection_aborted(); $left -= self::CHUNK) {
            echo $left < self::CHUNK ? substr($chunk, 0, $left) : $chunk;
            if (ob_get_level() > 0) {
                ob_flush();
            }
            flush();
        }
    }
}
