<?php

declare(strict_types=1);

namespace Hearth\Tests\Bridge\Laravel;

use Hearth\Bridge\Laravel\Preparation;
use Hearth\Bridge\Laravel\Runner;
use Hearth\Tests\FakeHost;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Contracts\Http\Kernel;
use PHPUnit\Framework\Attributes\BackupGlobals;
use PHPUnit\Framework\TestCase;

/**
 * @backupGlobals enabled
 */
#[BackupGlobals(true)]
final class RunnerTest extends TestCase
{
    private const DEMO = __DIR__ . '/../../../../apps/laravel';
    private const LARAVEL = '/usr/share/php/Illuminate/autoload.php';

    protected function setUp(): void
    {
        if (!is_file(self::LARAVEL)) {
            self::markTestSkipped('Laravel is not installed.');
        }
        require_once self::DEMO . '/autoload.php';
    }

    protected function tearDown(): void
    {
        FakeHost::stop();
        // Laravel's, one pair an application.
        restore_error_handler();
        restore_exception_handler();
    }

    public function testEachRequestIsAnsweredByTheSameApplication(): void
    {
        $server = ['REQUEST_METHOD' => 'GET', 'HTTP_HOST' => 'example.test', 'SCRIPT_NAME' => '/index.php'];
        FakeHost::start($server + ['REQUEST_URI' => '/api/hello'], $server + ['REQUEST_URI' => '/api/request?a=b']);
        $hello = '{"message":"Hello, world!"}';
        $this->expectOutputRegex('~^' . preg_quote($hello, '~') . '\{.*"url":"http:\\\\/\\\\/example\.test\\\\/api~');

        self::assertSame(2, (new Runner($this->application()))->run());
    }

    public function testTheApplicationIsBootstrappedBeforeTheFirstRequest(): void
    {
        $application = $this->application();

        Preparation::of($application, $application->make(Kernel::class));

        self::assertTrue($application->hasBeenBootstrapped());
        foreach (['router', 'url', 'view', 'files', 'encrypter'] as $id) {
            self::assertTrue($application->resolved($id), $id);
        }
        self::assertFalse($application->resolved('session.store'));
    }

    private function application(): Application
    {
        return require self::DEMO . '/bootstrap/app.php';
    }
}
