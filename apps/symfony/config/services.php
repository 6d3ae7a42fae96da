<?php

declare(strict_types=1);

use App\Compatibility;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;

return static function (ContainerConfigurator $container): void {
    $container->extension('framework', Compatibility::framework());

    $container->services()
        ->defaults()->autowire()->autoconfigure()
        ->load('App\\', '../src/')->exclude(['../src/Kernel.php', '../src/Compatibility.php', '../src/NoComposer.php']);
};
