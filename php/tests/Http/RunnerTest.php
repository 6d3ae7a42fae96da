<?php

declare(strict_types=1);

namespace Hearth\Tests\Http;

use Hearth\Tests\BuiltInServer;
use PHPUnit\Framework\TestCase;

final class RunnerTest extends TestCase
{
    private static ?BuiltInServer $server = null;

    public static function setUpBeforeClass(): void
    {
        self::$server = new BuiltInServer(__DIR__ . '/../fixtures/psr15.php');
    }

    public static function tearDownAfterClass(): void
    {
        self::$server = null;
    }

    public function testTheSameScriptServesAsAWorkerAndAsAPlainScript(): void
    {
        foreach ([[], ['X-Resident: 1']] as $headers) {
            $response = $this->request('GET', '/a?b=c', $headers);

            self::assertSame('HTTP/1.1 200 OK', $response['status']);
            self::assertSame('http://example.org:8080/a?b=c', $response['body']);
        }
    }

    public function testTheReasonPhraseIsSent(): void
    {
        self::assertSame('HTTP/1.1 418 Short and stout', $this->request('GET', '/reason')['status']);
    }

    public function testALocationDoesNotChangeTheStatus(): void
    {
        $response = $this->request('GET', '/location');

        self::assertSame('HTTP/1.1 200 OK', $response['status']);
        self::assertContains('Location: /elsewhere', $response['headers']);
    }

    public function testRepeatedHeadersStayAndReplaceWhatPhpHasSet(): void
    {
        $headers = $this->request('GET', '/many')['headers'];

        self::assertContains('Set-Cookie: a=1', $headers);
        self::assertContains('Set-Cookie: b=2', $headers);
        $powered = array_values(preg_grep('~^X-Powered-By:~', $headers) ?: []);
        self::assertSame(['X-Powered-By: one', 'X-Powered-By: two'], $powered);
    }

    public function testHeadAndNoContentHaveNoBody(): void
    {
        self::assertSame('', $this->request('HEAD', '/many')['body']);
        self::assertSame('HTTP/1.1 204 No Content', $this->request('GET', '/empty')['status']);
        self::assertSame('', $this->request('GET', '/empty')['body']);
    }

    public function testALargeBodyArrivesWhole(): void
    {
        $body = $this->request('GET', '/large')['body'];

        self::assertSame(hash('sha256', str_repeat('0123456789abcdef', 65_536)), hash('sha256', $body));
    }

    public function testTheBodyOfTheRequestIsReadFromPhp(): void
    {
        $response = $this->request('PUT', '/body', ['Content-Type: application/json'], '{"a":1}');

        self::assertSame('{"a":1}', $response['body']);
    }

    public function testAnUploadIsMoved(): void
    {
        $body = implode("\r\n", [
            '--x',
            'Content-Disposition: form-data; name="files[]"; filename="a.txt"',
            'Content-Type: text/plain',
            '',
            'content of a',
            '--x--',
            '',
        ]);
        $response = $this->request('POST', '/move', ['Content-Type: multipart/form-data; boundary=x'], $body);

        self::assertSame('a.txt: content of a', $response['body']);
    }

    /**
     * @param list<string> $headers
     *
     * @return array{status: string, headers: list<string>, body: string}
     */
    private function request(string $method, string $target, array $headers = [], string $body = ''): array
    {
        self::assertNotNull(self::$server);

        return self::$server->request($method, $target, $headers, $body);
    }
}
