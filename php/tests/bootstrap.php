<?php

/*
 * Loads the package, the tests and the libraries of the system, the latter through the loader of the Symfony demo.
 */

declare(strict_types=1);

require_once __DIR__ . '/../../apps/symfony/autoload.php';
require_once __DIR__ . '/../autoload.php';

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Hearth\\Tests\\')) {
        $file = __DIR__ . '/' . strtr(substr($class, 13), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
}, prepend: true);

// PSR-15 is no package of Debian 12.
if (!interface_exists(Psr\Http\Server\RequestHandlerInterface::class)) {
    require __DIR__ . '/fixtures/RequestHandlerInterface.php';
}
