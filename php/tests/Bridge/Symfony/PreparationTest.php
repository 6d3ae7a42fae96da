<?php

declare(strict_types=1);

namespace Hearth\Tests\Bridge\Symfony;

use App\Controller\HomeController;
use App\Kernel;
use Hearth\Bridge\Symfony\CompiledClasses;
use Hearth\Bridge\Symfony\Preparation;
use PHPUnit\Framework\TestCase;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpKernel\KernelInterface;

final class PreparationTest extends TestCase
{
    public function testWhatEachRequestNeedsOfTheFrameworkIsBuilt(): void
    {
        $kernel = $this->kernel();

        Preparation::of($kernel);

        $container = $kernel->getContainer();
        foreach (['event_dispatcher', 'http_kernel', 'request_stack', 'router'] as $id) {
            self::assertTrue($container->initialized($id), $id);
        }
        self::assertNull($container->get('request_stack')->getCurrentRequest());
    }

    public function testNothingOfTheApplicationIsBuilt(): void
    {
        $kernel = $this->kernel();

        Preparation::of($kernel);

        self::assertFalse($kernel->getContainer()->initialized(HomeController::class));
    }

    public function testAPreparedKernelAnswersAsAnyOther(): void
    {
        $kernel = $this->kernel();
        Preparation::of($kernel);

        self::assertSame(
            $this->kernel()->handle(Request::create('/api/hello'))->getContent(),
            $kernel->handle(Request::create('/api/hello'))->getContent(),
        );
        self::assertSame(404, $kernel->handle(Request::create('/nowhere'))->getStatusCode());
    }

    public function testClassesOfTheCacheFolderAreFoundUntilTheFirstRequest(): void
    {
        $kernel = $this->kernel();
        $kernel->handle(Request::create('/'));
        $container = new \ReflectionClass($kernel->getContainer());
        $factories = glob(dirname((string) $container->getFileName()) . '/get*Service.php') ?: [];
        self::assertNotSame([], $factories);
        $before = spl_autoload_functions();

        $loader = CompiledClasses::register($kernel);

        self::assertNotNull($loader);
        foreach ($factories as $factory) {
            self::assertTrue(class_exists($container->getNamespaceName() . '\\' . basename($factory, '.php')));
        }
        self::assertFalse(class_exists($container->getNamespaceName() . '\\getNothingService'));
        $loader->unregister();
        self::assertSame($before, spl_autoload_functions());
    }

    public function testADebugKernelLoadsNothingAhead(): void
    {
        $kernel = $this->createStub(KernelInterface::class);
        $kernel->method('isDebug')->willReturn(true);
        $kernel->method('getContainer')->willReturn($this->kernel()->getContainer());

        self::assertNull(CompiledClasses::register($kernel));
    }

    private function kernel(): Kernel
    {
        $kernel = new Kernel('prod', false);
        $kernel->boot();

        return $kernel;
    }
}
