<?php

declare(strict_types=1);

namespace Hearth\Bridge\Symfony;

use Psr\Container\ContainerInterface;
use Symfony\Component\HttpKernel\KernelInterface;
use Twig\Cache\FilesystemCache;

/**
 * An autoloader for the classes that Symfony and Twig compile into the cache folder and include by path: factories of
 * the container, and templates. It is there for as long as the server loads the classes of the warm-up, which it does
 * by name; no request sees it. A debug kernel compiles anew what has changed, so nothing of it is loaded ahead.
 *
 * Runs in: zygote, up to the first request; worker. Called by: Runner, PHP.
 */
final class CompiledClasses
{
    private const TEMPLATE = '__TwigTemplate_';

    private readonly \Closure $autoloader;

    /** @param list<string> $templateFolders */
    private function __construct(
        private readonly string $namespace,
        private readonly string $folder,
        private readonly array $templateFolders,
    ) {
        $this->autoloader = $this->load(...);
    }

    public static function register(KernelInterface $kernel): ?self
    {
        $container = $kernel->getContainer();
        if ($kernel->isDebug() || !$container instanceof ContainerInterface) {
            return null;
        }
        $container = new \ReflectionClass($container);
        if ('' === $container->getNamespaceName() || false === $container->getFileName()) {
            return null;
        }
        $folders = array_unique([$kernel->getCacheDir() . '/twig', $kernel->getBuildDir() . '/twig']);
        $loader = new self(
            $container->getNamespaceName() . '\\',
            dirname($container->getFileName()),
            class_exists(FilesystemCache::class) ? array_values(array_filter($folders, is_dir(...))) : [],
        );
        spl_autoload_register($loader->autoloader);

        return $loader;
    }

    public function unregister(): void
    {
        spl_autoload_unregister($this->autoloader);
    }

    private function load(string $class): void
    {
        if (str_starts_with($class, self::TEMPLATE)) {
            $this->loadTemplate($class);
        } elseif (str_starts_with($class, $this->namespace)) {
            $file = $this->folder . '/' . substr($class, strlen($this->namespace)) . '.php';
            if (is_file($file)) {
                require_once $file;
            }
        }
    }

    private function loadTemplate(string $class): void
    {
        foreach ($this->templateFolders as $folder) {
            $cache = new FilesystemCache($folder);
            $cache->load($cache->generateKey('', $class));
            if (class_exists($class, false)) {
                return;
            }
        }
    }
}
