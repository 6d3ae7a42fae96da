<?php

declare(strict_types=1);

namespace Hearth\Tests\Bridge\Symfony;

use App\Kernel;
use Hearth\Bridge\Symfony\Runner;
use Hearth\Bridge\Symfony\Runtime;
use Hearth\Tests\FakeHost;
use Hearth\Tests\RequestEnded;
use PHPUnit\Framework\Attributes\BackupGlobals;
use PHPUnit\Framework\TestCase;
use Symfony\Bundle\FrameworkBundle\Console\Application;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpFoundation\Session\Session;
use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\HttpKernel\KernelInterface;
use Symfony\Component\Runtime\Runner\Symfony\ConsoleApplicationRunner;
use Symfony\Component\Runtime\Runner\Symfony\HttpKernelRunner;

/**
 * @backupGlobals enabled
 */
#[BackupGlobals(true)]
final class RuntimeTest extends TestCase
{
    public function testInAResidentPoolAKernelStays(): void
    {
        FakeHost::start();

        self::assertInstanceOf(Runner::class, $this->runtime()->getRunner(new RecordingKernel()));
    }

    public function testAnywhereElseItIsSymfonysRuntime(): void
    {
        self::assertInstanceOf(HttpKernelRunner::class, $this->runtime()->getRunner(new RecordingKernel()));
    }

    public function testAConsoleIsSymfonysAffairInAResidentPoolToo(): void
    {
        FakeHost::start();
        $console = new Application(new Kernel('prod', false));

        self::assertInstanceOf(ConsoleApplicationRunner::class, $this->runtime()->getRunner($console));
    }

    public function testTerminateRunsOnceTheResponseIsComplete(): void
    {
        FakeHost::start(['REQUEST_URI' => '/one'], ['REQUEST_URI' => '/two']);
        $this->expectOutputString('/one /two ');

        self::assertSame(0, $this->runtime()->getRunner(new RecordingKernel())->run());

        self::assertSame([
            'request', 'handle', 'complete', 'terminate /one',
            'request', 'handle', 'complete', 'terminate /two',
            'end',
        ], FakeHost::$events);
    }

    public function testARequestSeesTheVariablesOfTheBootButNoHeaderOfIt(): void
    {
        $runtime = $this->runtime();
        FakeHost::start(['REQUEST_URI' => '/one', 'APP_COLOUR' => 'red'], ['REQUEST_URI' => '/two']);
        $_SERVER['APP_COLOUR'] = 'blue';
        $_SERVER['HTTP_X_BOOT'] = '1';
        $kernel = new RecordingKernel();
        $this->expectOutputString('/one /two ');

        $runtime->getRunner($kernel)->run();

        self::assertSame('red', $kernel->requests[0]->server->get('APP_COLOUR'));
        self::assertSame('blue', $kernel->requests[1]->server->get('APP_COLOUR'));
        self::assertSame('web=1&worker=1', $kernel->requests[1]->server->get('APP_RUNTIME_MODE'));
        self::assertFalse($kernel->requests[1]->headers->has('X-Boot'));
    }

    public function testARequestIsFreedOnceItIsComplete(): void
    {
        FakeHost::start(['REQUEST_URI' => '/one']);
        $kernel = new class () implements HttpKernelInterface {
            public ?\WeakReference $request = null;

            public function handle(Request $request, int $type = self::MAIN_REQUEST, bool $catch = true): Response
            {
                $this->request = \WeakReference::create($request);
                // As AbstractSessionListener::onKernelRequest() does.
                $request->setSessionFactory(static fn (): Session => throw new \LogicException($request->getUri()));

                return new Response();
            }
        };
        gc_disable();

        try {
            $this->runtime()->getRunner($kernel)->run();

            self::assertNull($kernel->request?->get());
        } finally {
            gc_enable();
        }
    }

    public function testAKernelLeftInTheMiddleOfARequestIsBootedAnew(): void
    {
        FakeHost::start(['REQUEST_URI' => '/one'], ['REQUEST_URI' => '/two']);
        $kernel = $this->createStub(KernelInterface::class);
        $note = static fn (string $event) => static function () use ($event): void {
            FakeHost::$events[] = $event;
        };
        $kernel->method('boot')->willReturnCallback($note('boot'));
        $kernel->method('shutdown')->willReturnCallback($note('shutdown'));
        $kernel->method('handle')->willReturnOnConsecutiveCalls(
            $this->throwException(new RequestEnded()),
            new Response('two'),
        );
        $this->expectOutputString('two');

        $this->runtime()->getRunner($kernel)->run();

        self::assertSame(
            ['boot', 'request', 'exit', 'complete', 'shutdown', 'boot', 'request', 'complete', 'end'],
            FakeHost::$events,
        );
    }

    public function testTheDemoAnswersAgainAndAgainWithOneKernel(): void
    {
        FakeHost::start(['REQUEST_URI' => '/api/hello'], ['REQUEST_URI' => '/api/hello']);
        $this->expectOutputString(str_repeat('{"message":"Hello, world!"}', 2));

        self::assertSame(0, $this->runtime()->getRunner(new Kernel('prod', false))->run());
    }

    protected function tearDown(): void
    {
        FakeHost::stop();
    }

    private function runtime(): Runtime
    {
        return new Runtime(['error_handler' => false, 'project_dir' => __DIR__ . '/../../../../apps/symfony']);
    }
}
