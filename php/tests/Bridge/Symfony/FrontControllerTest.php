<?php

declare(strict_types=1);

namespace Hearth\Tests\Bridge\Symfony;

use Hearth\Bridge\Symfony\FrontController;
use PHPUnit\Framework\TestCase;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpKernel\KernelInterface;

final class FrontControllerTest extends TestCase
{
    protected function tearDown(): void
    {
        Request::setFactory(null);
        $_GET = [];
    }

    public function testTheRequestIsMadeOfWhatIsThereAfterTheWait(): void
    {
        $waits = 0;
        FrontController::keep(static function () use (&$waits): void {
            $_GET = ['wait' => (string) ++$waits];
        });

        self::assertSame('1', Request::createFromGlobals()->query->get('wait'));
        self::assertSame('1', Request::createFromGlobals()->query->get('wait'));
        self::assertSame(1, $waits);
    }

    public function testTheKernelOfARunnerIsBootedBeforeTheWait(): void
    {
        $kernel = $this->createMock(KernelInterface::class);
        $booted = false;
        $kernel->method('boot')->willReturnCallback(static function () use (&$booted): void {
            $booted = true;
        });
        $kernel->method('isDebug')->willReturn(true);
        FrontController::keep(static function () use (&$booted): void {
            self::assertTrue($booted);
        });

        $run = static fn (KernelInterface $kernel): Request => Request::createFromGlobals();
        $run($kernel);
        self::assertTrue($booted);
    }

    public function testARequestThatIsMadeWhileTheScriptBootsIsNotWaitedFor(): void
    {
        $waits = 0;
        $own = new class extends Request {
        };
        FrontController::keep(static function () use (&$waits): void {
            ++$waits;
        }, static fn (): string => $own::class);

        $made = Request::create('/boot?n=1');
        self::assertSame([$own::class, '/boot', '1'], [$made::class, $made->getPathInfo(), $made->query->get('n')]);
        self::assertSame(0, $waits);
        Request::createFromGlobals();
        self::assertSame(1, $waits);
    }

    public function testAScriptThatWaitsInAnotherWayKeepsItsFactoryOnly(): void
    {
        FrontController::keep(static fn () => self::fail('The factory is still there.'));
        FrontController::leave();
        self::assertSame(Request::class, Request::createFromGlobals()::class);

        $own = new Request();
        Request::setFactory(static fn (): Request => $own);
        FrontController::leave();
        self::assertSame($own, Request::createFromGlobals());
    }
}
