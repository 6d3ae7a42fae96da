<?php

declare(strict_types=1);

namespace Hearth\Http;

use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\StreamInterface;

/**
 * Sends a PSR-7 response as PHP's output.
 */
final class ResponseWriter
{
    /** Bytes read from the body at a time; what one write to the server costs least with. */
    private const CHUNK = 65_536;

    /**
     * @param string $method Of the request: a response to HEAD has no body.
     *
     * @throws ResponseError If output was sent before.
     */
    public function write(ResponseInterface $response, string $method): void
    {
        if (headers_sent($file, $line)) {
            throw ResponseError::headersSent($file, $line);
        }

        $this->writeHead($response);
        $bodiless = 'HEAD' === $method || in_array($response->getStatusCode(), [204, 304], true);
        if (!$bodiless) {
            $this->writeBody($response->getBody());
        }
    }

    private function writeHead(ResponseInterface $response): void
    {
        foreach ($response->getHeaders() as $name => $values) {
            // Cookies that PHP's session has set stay; any other header of the same name is this response's to set.
            $replace = 0 !== strcasecmp((string) $name, 'Set-Cookie');
            foreach ($values as $value) {
                header($name . ': ' . $value, $replace);
                $replace = false;
            }
        }

        // Last, since a Location header changes the status (php-src main/SAPI.c sapi_header_op()).
        $line = sprintf('%d %s', $response->getStatusCode(), $response->getReasonPhrase());
        header('HTTP/' . $response->getProtocolVersion() . ' ' . rtrim($line), true, $response->getStatusCode());
    }

    private function writeBody(StreamInterface $body): void
    {
        if ($body->isSeekable()) {
            $body->rewind();
        }
        while (!$body->eof() && !connection_aborted()) {
            echo $body->read(self::CHUNK);
            // A body that is over goes out with the end of the request, in one piece with its head if it is small.
            if (!$body->eof()) {
                $this->flush();
            }
        }
        $body->close();
    }

    /** Passes on what was written, also where output_buffering is on. */
    private function flush(): void
    {
        if (ob_get_level() > 0) {
            ob_flush();
        }
        flush();
    }
}
