<?php

declare(strict_types=1);

namespace Hearth\Tests\Http;

use Hearth\Http\RequestReader;
use Nyholm\Psr7\Factory\Psr17Factory;
use PHPUnit\Framework\Attributes\BackupGlobals;
use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Psr\Http\Message\ServerRequestInterface;

/**
 * @backupGlobals enabled
 */
#[BackupGlobals(true)]
final class RequestReaderTest extends TestCase
{
    public function testHeadersComeFromTheCgiVariables(): void
    {
        $request = $this->read([
            'HTTP_ACCEPT_LANGUAGE' => 'de, en',
            'HTTP_X_EMPTY' => '',
            'CONTENT_TYPE' => 'text/plain',
            'CONTENT_LENGTH' => '',
            'DOCUMENT_ROOT' => '/srv',
        ]);

        self::assertSame('de, en', $request->getHeaderLine('accept-language'));
        self::assertSame('text/plain', $request->getHeaderLine('Content-Type'));
        self::assertTrue($request->hasHeader('X-Empty'));
        self::assertFalse($request->hasHeader('Content-Length'));
        self::assertFalse($request->hasHeader('Document-Root'));
    }

    public function testAHeaderNamedByANumberIsAHeader(): void
    {
        self::assertSame('x', $this->read(['HTTP_123' => 'x'])->getHeaderLine('123'));
    }

    /**
     * @dataProvider uris
     *
     * @param array<string, string> $server
     */
    #[DataProvider('uris')]
    public function testTheUriIsTheOneTheClientAskedFor(string $expected, array $server): void
    {
        self::assertSame($expected, (string) $this->read($server)->getUri());
    }

    /** @return iterable<string, array{string, array<string, string>}> */
    public static function uris(): iterable
    {
        $host = ['HTTP_HOST' => 'example.org'];
        yield 'plain' => ['http://example.org/a?b=c', $host + ['REQUEST_URI' => '/a?b=c']];
        yield 'port' => ['http://example.org:8080/', ['HTTP_HOST' => 'example.org:8080', 'REQUEST_URI' => '/']];
        yield 'https' => ['https://example.org/', $host + ['REQUEST_URI' => '/', 'HTTPS' => 'on']];
        yield 'https off' => ['http://example.org/', $host + ['REQUEST_URI' => '/', 'HTTPS' => 'off']];
        yield 'address' => ['http://[::1]:81/', ['HTTP_HOST' => '[::1]:81', 'REQUEST_URI' => '/']];
        yield 'absolute form' => ['http://example.org/a', $host + ['REQUEST_URI' => 'http://example.org/a']];
        yield 'question mark in query' => ['http://example.org/?a=?', $host + ['REQUEST_URI' => '/?a=?']];
        yield 'two slashes' => ['http://example.org//evil.example/', $host + ['REQUEST_URI' => '//evil.example/']];
        yield 'malformed host' => [
            'http://server:8000/',
            ['HTTP_HOST' => 'a@b/c', 'SERVER_NAME' => 'server', 'SERVER_PORT' => '8000', 'REQUEST_URI' => '/'],
        ];
        yield 'impossible port' => [
            'http://server/',
            ['HTTP_HOST' => 'a:99999', 'SERVER_NAME' => 'server', 'SERVER_PORT' => '80', 'REQUEST_URI' => '/'],
        ];
    }

    public function testSuperglobalsAreTaken(): void
    {
        $_GET = ['a' => ['1', '2']];
        $_COOKIE = ['c' => 'd'];
        $_POST = ['e' => 'f'];

        $request = $this->read([
            'REQUEST_METHOD' => 'POST',
            'CONTENT_TYPE' => 'Application/X-WWW-Form-Urlencoded; charset=utf-8',
            'SERVER_PROTOCOL' => 'HTTP/2',
        ]);

        self::assertSame('POST', $request->getMethod());
        self::assertSame('2', $request->getProtocolVersion());
        self::assertSame(['a' => ['1', '2']], $request->getQueryParams());
        self::assertSame(['c' => 'd'], $request->getCookieParams());
        self::assertSame(['e' => 'f'], $request->getParsedBody());
    }

    public function testABodyThatIsNoFormIsNotParsed(): void
    {
        $request = $this->read(['REQUEST_METHOD' => 'POST', 'CONTENT_TYPE' => 'application/json']);

        self::assertNull($request->getParsedBody());
    }

    /** @param array<string, string> $server */
    private function read(array $server): ServerRequestInterface
    {
        $_SERVER = $server;
        $factory = new Psr17Factory();

        return (new RequestReader($factory, $factory, $factory))->read();
    }
}
