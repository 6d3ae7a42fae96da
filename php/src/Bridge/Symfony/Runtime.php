<?php

declare(strict_types=1);

namespace Hearth\Bridge\Symfony;

use Hearth\Native\Worker;
use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\Runtime\RunnerInterface;
use Symfony\Component\Runtime\SymfonyRuntime;

/**
 * Symfony's runtime with a resident kernel. Chosen with `APP_RUNTIME=Hearth\Bridge\Symfony\Runtime`; outside of a
 * resident pool, and for consoles, it is SymfonyRuntime itself.
 *
 * Runs in: zygote. Called by: autoload_runtime.php of the application.
 */
final class Runtime extends SymfonyRuntime
{
    public function getRunner(?object $application): RunnerInterface
    {
        return $application instanceof HttpKernelInterface && Worker::isAvailable()
            ? new Runner($application, new Worker())
            : parent::getRunner($application);
    }
}
