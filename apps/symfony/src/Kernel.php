<?php

declare(strict_types=1);

namespace App;

use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

/**
 * The demo's kernel: Symfony's conventions, and a place for written files that any user may run it with.
 */
final class Kernel extends BaseKernel
{
    use MicroKernelTrait;

    private ?string $varDir = null;

    public function getProjectDir(): string
    {
        return dirname(__DIR__);
    }

    /** The version is part of the path: a container compiled for one Symfony must not meet another. */
    public function getCacheDir(): string
    {
        return $this->getVarDir() . '/cache/' . self::VERSION . '/' . $this->environment;
    }

    public function getLogDir(): string
    {
        return $this->getVarDir() . '/log';
    }

    private function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->import(__DIR__ . '/Controller/', Compatibility::routeLoader());
    }

    /**
     * The project's var/ if it belongs to the user of this process or can be made, else a folder of this user's own
     * among the temporary files: root may have started the demo first, and php-fpm runs it as someone else.
     */
    private function getVarDir(): string
    {
        return $this->varDir ??= $this->findVarDir();
    }

    private function findVarDir(): string
    {
        $user = posix_geteuid();
        $var = $this->getProjectDir() . '/var';
        if (is_dir($var) ? fileowner($var) === $user : is_writable($this->getProjectDir()) && @mkdir($var, 0o755)) {
            return $var;
        }

        $temporary = sys_get_temp_dir() . '/hearth-demo-' . $user . '-' . hash('crc32b', $this->getProjectDir());
        if (!is_dir($temporary)) {
            @mkdir($temporary, 0o700);
        }
        if (@fileowner($temporary) !== $user) {
            throw new \RuntimeException(
                sprintf('"%s" belongs to another user; remove it or make "%s" writable.', $temporary, $var)
            );
        }

        return $temporary;
    }
}
