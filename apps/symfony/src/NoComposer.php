<?php

declare(strict_types=1);

namespace App;

/**
 * What Composer's InstalledVersions says where Composer has installed nothing. Symfony asks it, from 6.0 on always,
 * whether a class that exists comes from a package for development only.
 */
final class NoComposer
{
    public static function isInstalled(string $package, bool $includeDevRequirements = true): bool
    {
        return false;
    }

    /** Only for the links in Symfony's messages. */
    public static function getVersion(string $package): string
    {
        return '0.0.0';
    }
}
