<?php

declare(strict_types=1);

namespace App;

use Composer\InstalledVersions;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Annotation;
use Symfony\Component\Routing\Attribute;

/**
 * Everything in which the versions of Symfony differ for the demo. The rest is written for 7.4 and runs with 5.4.
 */
final class Compatibility
{
    public static function declareAliases(): void
    {
        // Before 6.4 the route attribute lives in the namespace of annotations only.
        if (Kernel::VERSION_ID < 60400) {
            class_alias(Annotation\Route::class, Attribute\Route::class);
        }
        if (Kernel::VERSION_ID >= 60000 && !class_exists(InstalledVersions::class)) {
            class_alias(NoComposer::class, InstalledVersions::class);
        }
    }

    /** Name of the route loader that reads attributes. */
    public static function routeLoader(): string
    {
        return Kernel::VERSION_ID < 60400 ? 'annotation' : 'attribute';
    }

    /**
     * Settings of framework-bundle which only some versions know.
     *
     * @return array<string, bool>
     */
    public static function framework(): array
    {
        return Kernel::VERSION_ID < 60200 ? [] : ['handle_all_throwables' => true];
    }
}
