<?php

declare(strict_types=1);

namespace Hearth\Bridge\Symfony;

use Psr\Container\ContainerInterface;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\HttpKernel\KernelInterface;
use Symfony\Component\Routing\Router;

/**
 * Builds what each request needs of the framework, before the first one: workers are forked with it. Nothing of the
 * application's own is built, for its services may ask at once who is there. What cannot be built now is left to the
 * request that needs it, and so is the error.
 *
 * Runs in: zygote. Called by: Runner.
 */
final class Preparation
{
    private const KERNEL = 'Symfony\\Component\\HttpKernel\\';
    private const SERVICES = ['request_stack', 'event_dispatcher', 'http_kernel', 'router'];

    public static function of(KernelInterface $kernel): void
    {
        $container = $kernel->getContainer();
        foreach (self::SERVICES as $id) {
            self::attempt(static fn () => self::build($container, $id));
        }
    }

    private static function build(ContainerInterface $container, string $id): void
    {
        $service = $container->has($id) ? $container->get($id) : null;
        if ($service instanceof Router) {
            $service->getMatcher();
            $service->getGenerator();
        } elseif ($service instanceof EventDispatcher) {
            self::buildListeners($service);
        }
    }

    /**
     * A listener is a service that is built when its event comes first. Its closure says which one since Symfony 6.1;
     * those of an older one are left alone. So are those of bundles: Twig's, for instance, would bring the
     * application's own extensions with it.
     */
    private static function buildListeners(EventDispatcher $dispatcher): void
    {
        $listeners = \Closure::bind(fn (): array => $this->listeners, $dispatcher, EventDispatcher::class)();
        array_walk_recursive($listeners, static function (mixed $listener): void {
            if ($listener instanceof \Closure && self::isOfKernel($listener)) {
                self::attempt($listener);
            }
        });
    }

    private static function isOfKernel(\Closure $listener): bool
    {
        foreach ((new \ReflectionFunction($listener))->getAttributes(\Closure::class) as $attribute) {
            $arguments = $attribute->getArguments();
            if (str_starts_with($arguments['class'] ?? $arguments['name'] ?? '', self::KERNEL)) {
                return true;
            }
        }

        return false;
    }

    private static function attempt(callable $build): void
    {
        try {
            $build();
        } catch (\Throwable) {
        }
    }
}
