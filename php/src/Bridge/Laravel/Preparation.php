<?php

declare(strict_types=1);

namespace Hearth\Bridge\Laravel;

use Illuminate\Contracts\Foundation\Application;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Http\Request;
use Illuminate\Routing\Router;

/**
 * Bootstraps the application and builds what each request needs of the framework, before the first one: workers are
 * forked with it. Service providers boot, as they do for a console command; nothing else of the application's own is
 * built. What cannot be built now is left to the request that needs it, and so is the error.
 *
 * Runs in: zygote. Called by: Runner.
 */
final class Preparation
{
    /** Singletons that know of no request, or take the one that comes. */
    private const SERVICES = [
        'blade.compiler', 'config', 'cookie', 'encrypter', 'events', 'files', 'router', 'routes', 'url', 'view',
        'view.engine.resolver', 'view.finder',
    ];

    public static function of(Application $application, Kernel $kernel): void
    {
        // A provider may look at the request while it boots; the first real one takes its place.
        $application->instance('request', Request::create('http://localhost'));
        $kernel->bootstrap();
        foreach (self::SERVICES as $id) {
            self::attempt(static fn () => $application->bound($id) ? $application->make($id) : null);
        }
        self::attempt(static fn () => self::nameRoutes($application->make('router')));
    }

    private static function nameRoutes(Router $router): void
    {
        $router->getRoutes()->refreshNameLookups();
        $router->getRoutes()->refreshActionLookups();
    }

    private static function attempt(callable $build): void
    {
        try {
            $build();
        } catch (\Throwable) {
        }
    }
}
