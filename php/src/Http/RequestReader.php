<?php

declare(strict_types=1);

namespace Hearth\Http;

use Psr\Http\Message\ServerRequestFactoryInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Message\StreamFactoryInterface;
use Psr\Http\Message\UriFactoryInterface;
use Psr\Http\Message\UriInterface;

/**
 * Reads the current request from the superglobals into a PSR-7 message. The body stays where it is: php://input.
 */
final class RequestReader
{
    private const HOST = '~^(?<host>\[[0-9a-f:.]+\]|[^:/?#@\[\]\\\\\s]+)(?::(?<port>\d{1,5}))?$~i';

    private const FORMS = ['application/x-www-form-urlencoded', 'multipart/form-data'];

    private readonly UploadedFileTree $files;

    public function __construct(
        private readonly ServerRequestFactoryInterface $requests,
        private readonly UriFactoryInterface $uris,
        private readonly StreamFactoryInterface $streams,
    ) {
        $this->files = new UploadedFileTree($streams);
    }

    public function read(): ServerRequestInterface
    {
        $method = $this->server('REQUEST_METHOD', 'GET');
        $request = $this->requests->createServerRequest($method, $this->uri(), $_SERVER);
        foreach ($this->headers() as $name => $value) {
            $request = $request->withHeader((string) $name, $value);
        }

        return $request
            ->withProtocolVersion(substr($this->server('SERVER_PROTOCOL', 'HTTP/1.1'), 5))
            ->withCookieParams($_COOKIE)
            ->withQueryParams($_GET)
            ->withUploadedFiles($this->files->build($_FILES))
            ->withParsedBody($this->isForm($method) ? $_POST : null)
            ->withBody($this->streams->createStreamFromFile('php://input', 'rb'));
    }

    /** Built part by part, so that nothing in the target or in Host is mistaken for another part of the URI. */
    private function uri(): UriInterface
    {
        // A target in absolute form (RFC 9112 §3.2.2) brings its own host; the server has put it into HTTP_HOST.
        $target = preg_replace('~^https?://[^/?#]*~i', '', $this->server('REQUEST_URI', '/')) ?? '/';
        [$path, $query] = explode('?', explode('#', $target, 2)[0], 2) + [1 => ''];
        [$host, $port] = $this->authority();
        $https = $this->server('HTTPS', 'off');

        return $this->uris->createUri()
            ->withScheme('off' === strtolower($https) ? 'http' : 'https')
            ->withHost($host)
            ->withPort($port)
            ->withPath(str_starts_with($path, '/') || '*' === $path ? $path : '/' . $path)
            ->withQuery($query);
    }

    /** @return array{string, int|null} Host and port; the server's own name where Host is absent or malformed. */
    private function authority(): array
    {
        if (1 === preg_match(self::HOST, $this->server('HTTP_HOST', ''), $match)) {
            $port = (int) ($match['port'] ?? 0);
            if ($port <= 65_535) {
                return [$match['host'], $port ?: null];
            }
        }

        return [$this->server('SERVER_NAME', 'localhost'), ((int) $this->server('SERVER_PORT', '0')) ?: null];
    }

    /**
     * Values of a repeated header come joined (RFC 3875 §4.1.18).
     *
     * @return array<array-key, string> By names as in `Accept-Language`.
     */
    private function headers(): array
    {
        $headers = [];
        foreach ($_SERVER as $name => $value) {
            $name = (string) $name;
            $name = match (true) {
                str_starts_with($name, 'HTTP_') => substr($name, 5),
                'CONTENT_TYPE' === $name, 'CONTENT_LENGTH' === $name => $name,
                default => '',
            };
            if ('' !== $name && is_string($value) && ('' !== $value || !str_starts_with($name, 'CONTENT_'))) {
                $headers[ucwords(strtolower(strtr($name, '_', '-')), '-')] = $value;
            }
        }

        return $headers;
    }

    /** PSR-7 asks for `$_POST` for these types; PHP itself fills it for POST only. */
    private function isForm(string $method): bool
    {
        $type = strtolower(trim(explode(';', $this->server('CONTENT_TYPE', ''), 2)[0]));

        return 'POST' === $method && in_array($type, self::FORMS, true);
    }

    private function server(string $name, string $default): string
    {
        $value = $_SERVER[$name] ?? '';

        return is_scalar($value) && '' !== (string) $value ? (string) $value : $default;
    }
}
