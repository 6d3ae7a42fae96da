<?php

declare(strict_types=1);

namespace Hearth\Tests\Demo;

use App\Kernel;
use PHPUnit\Framework\Attributes\BackupGlobals;
use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Symfony\Component\HttpFoundation\File\UploadedFile;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;

/**
 * The pages of apps/symfony that end well, by its kernel alone; the others need a server.
 *
 * @backupGlobals enabled
 */
#[BackupGlobals(true)]
final class PagesTest extends TestCase
{
    private static ?Kernel $kernel = null;

    public static function setUpBeforeClass(): void
    {
        $_SERVER['APP_SECRET'] ??= 'test';
        self::$kernel = new Kernel('prod', false);
    }

    public static function tearDownAfterClass(): void
    {
        self::$kernel = null;
    }

    /** @dataProvider pages */
    #[DataProvider('pages')]
    public function testAPageAnswers(string $path, int $status, string $text): void
    {
        $response = $this->handle(Request::create($path));

        self::assertSame($status, $response->getStatusCode());
        self::assertStringContainsString($text, (string) $response->getContent());
        self::assertFalse($response->headers->has('Set-Cookie'), 'No session is started for a page that needs none.');
    }

    /** @return iterable<array{string, int, string}> */
    public static function pages(): iterable
    {
        yield ['/', 200, 'It is warm in here.'];
        yield ['/upload', 200, 'name="upload[file]"'];
        yield ['/login', 200, 'name="login[password]"'];
        yield ['/account', 303, '/login'];
        yield ['/cached', 200, 'id="cached-value"'];
        yield ['/slow?ms=0', 200, 'slept for 0 ms'];
        yield ['/api/hello', 200, '{"message":"Hello, world!"}'];
        yield ['/api/request?a[]=1', 200, '"query":{"a":["1"]}'];
        yield ['/upload?_method=DELETE', 200, '<form'];
    }

    public function testAnUploadShowsNameSizeAndHash(): void
    {
        $path = (string) tempnam(sys_get_temp_dir(), 'hearth');
        file_put_contents($path, 'abc');
        try {
            $file = new UploadedFile($path, 'a <b>.txt', 'text/plain', \UPLOAD_ERR_OK, true);
            $fields = ['upload' => ['note' => 'hello']];
            $response = $this->handle(Request::create('/upload', 'POST', $fields, [], ['upload' => ['file' => $file]]));
        } finally {
            unlink($path);
        }

        self::assertSame(200, $response->getStatusCode());
        self::assertStringContainsString('a &lt;b&gt;.txt', (string) $response->getContent());
        self::assertStringContainsString(hash('sha256', 'abc'), (string) $response->getContent());
    }

    public function testAnUploadWithoutAFileIsRefused(): void
    {
        $response = $this->handle(Request::create('/upload', 'POST', ['upload' => ['note' => 'hello']]));

        self::assertSame(422, $response->getStatusCode());
        self::assertStringContainsString('Choose a file.', (string) $response->getContent());
    }

    public function testADownloadHasTheLengthItSays(): void
    {
        // Flushing is the page's purpose: the buffer takes what comes out of it.
        $size = 0;
        ob_start(static function (string $bytes) use (&$size): string {
            $size += strlen($bytes);

            return '';
        });
        // Symfony 5.4 sends the content while it handles the request; a response sends it once.
        $response = $this->handle(Request::create('/download?size=100001'));
        $response->sendContent();
        ob_end_clean();

        self::assertSame('100001', $response->headers->get('Content-Length'));
        self::assertSame(100001, $size);
    }

    private function handle(Request $request): Response
    {
        self::assertNotNull(self::$kernel);

        return self::$kernel->handle($request);
    }
}
