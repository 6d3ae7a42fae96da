<?php

/*
 * Loads the demo's classes and those of the Symfony packages of the system, which lie where their names say. One
 * loader instead of the forty that the packages bring: a classic request boots faster with it.
 *
 * Runs in: zygote (resident), worker (classic), php-fpm, console.
 */

declare(strict_types=1);

const APP_LIBRARY = '/usr/share/php/';

spl_autoload_register(static function (string $class): void {
    $path = strtr($class, '\\', '/') . '.php';
    $file = match (true) {
        str_starts_with($path, 'App/') => __DIR__ . '/src/' . substr($path, 4),
        // symfony/runtime keeps these classes in a folder that is not named like their namespace.
        str_starts_with($path, 'Symfony/Runtime/Symfony/Component/')
            => APP_LIBRARY . 'Symfony/Component/Runtime/Internal/' . substr($path, 34),
        // The class around a cached value has a name of one byte, to be short in what is stored.
        "\xA9" === $class => APP_LIBRARY . 'Symfony/Component/Cache/Traits/ValueWrapper.php',
        default => APP_LIBRARY . $path,
    };
    if (is_file($file)) {
        require $file;
    }
});

// Functions are not autoloaded. Which of these files exist depends on the version of Symfony.
foreach (['Symfony/Contracts/Deprecation/function.php', 'Symfony/Polyfill/Php85/bootstrap.php'] as $functions) {
    if (is_file(APP_LIBRARY . $functions)) {
        require APP_LIBRARY . $functions;
    }
}

// The bridge to Hearth; absent where the demo was copied elsewhere, e.g. for php-fpm alone.
if (is_file(__DIR__ . '/../../php/autoload.php')) {
    require __DIR__ . '/../../php/autoload.php';
}

App\Compatibility::declareAliases();
