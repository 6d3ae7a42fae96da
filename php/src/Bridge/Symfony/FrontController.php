<?php

declare(strict_types=1);

namespace Hearth\Bridge\Symfony;

use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpKernel\KernelInterface;

/**
 * Lets a front controller that knows nothing of Hearth wait for its request where it asks for it: in
 * Request::createFromGlobals(). The kernel is booted and prepared before that, so workers are forked with it. Each
 * request runs the front controller from there to its end, and is undone.
 *
 * Hearth brings this class along; no application needs to install it.
 *
 * Runs in: zygote, up to the first request; worker. Called by: Hearth, HttpFoundation.
 */
final class FrontController
{
    /**
     * While a script boots: the request that it asks for is waited for, by the function $wait. One that it makes
     * itself, by Request::create(), is of the class that $called tells.
     */
    public static function keep(callable $wait, ?callable $called = null): void
    {
        Request::setFactory(static function (mixed ...$arguments) use ($wait, $called): Request {
            if ('createFromGlobals' === (debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS, 3)[2]['function'] ?? null)) {
                return self::request($wait);
            }
            $class = null === $called ? Request::class : $called();

            return new $class(...$arguments);
        });
    }

    /** The script waits in another way. A factory that the application has set since stays. */
    public static function leave(): void
    {
        $factory = \Closure::bind(static fn (): mixed => Request::$requestFactory, null, Request::class)();
        if (
            $factory instanceof \Closure
            && self::class === (new \ReflectionFunction($factory))->getClosureScopeClass()?->getName()
        ) {
            Request::setFactory(null);
        }
    }

    /** The arguments of the factory are the boot's, and so of no use. */
    private static function request(callable $wait): Request
    {
        Request::setFactory(null);
        $kernel = self::kernel();
        $compiled = null;
        if (null !== $kernel) {
            $kernel->boot();
            Preparation::of($kernel);
            $compiled = CompiledClasses::register($kernel);
        }
        unset($kernel);
        $wait();
        $compiled?->unregister();

        return Request::createFromGlobals();
    }

    /** The one that a function on the way here was called with or of, else the first of the global variables. */
    private static function kernel(): ?KernelInterface
    {
        foreach (debug_backtrace(\DEBUG_BACKTRACE_PROVIDE_OBJECT) as $frame) {
            foreach ([$frame['object'] ?? null, ...array_values($frame['args'] ?? [])] as $value) {
                if ($value instanceof KernelInterface) {
                    return $value;
                }
            }
        }
        foreach ($GLOBALS as $value) {
            if ($value instanceof KernelInterface) {
                return $value;
            }
        }

        return null;
    }
}
