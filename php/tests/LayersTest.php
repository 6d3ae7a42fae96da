<?php

declare(strict_types=1);

namespace Hearth\Tests;

use PHPUnit\Framework\TestCase;

/**
 * What a layer of src/ may name: of this package, and of others.
 */
final class LayersTest extends TestCase
{
    private const LAYERS = [
        'Native' => ['Hearth\\Native'],
        'Http' => ['Hearth\\Http', 'Hearth\\Native', 'Psr\\Http', 'Nyholm\\Psr7'],
        'Bridge/Laravel' => ['Hearth\\Bridge\\Laravel', 'Hearth\\Native', 'Illuminate'],
        'Bridge/Symfony' => [
            'Hearth\\Bridge\\Symfony', 'Hearth\\Http', 'Hearth\\Native', 'Symfony', 'Psr\\Container', 'Twig',
        ],
    ];

    public function testEachFileNamesOnlyWhatItsLayerMay(): void
    {
        foreach ($this->sources() as $path) {
            $layer = $this->layerOf($path);
            foreach ($this->namesIn($path) as $name) {
                $allowed = array_filter(
                    self::LAYERS[$layer],
                    static fn (string $prefix): bool => str_starts_with($name . '\\', $prefix . '\\'),
                );
                self::assertNotSame([], $allowed, "$path names $name, which $layer may not.");
            }
        }
    }

    public function testNativeFunctionsAreCalledByNativeAlone(): void
    {
        foreach ($this->sources() as $path) {
            if ('Native' !== $this->layerOf($path)) {
                self::assertDoesNotMatchRegularExpression('~\b(hearth|frankenphp)_\w+\(~', $this->read($path), $path);
            }
        }
    }

    /** @return list<string> Relative to src/. */
    private function sources(): array
    {
        $root = dirname(__DIR__) . '/src/';
        $paths = [];
        foreach (new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator($root)) as $file) {
            if ($file->isFile()) {
                $paths[] = substr($file->getPathname(), strlen($root));
            }
        }
        self::assertNotSame([], $paths);

        return $paths;
    }

    private function layerOf(string $path): string
    {
        foreach (array_keys(self::LAYERS) as $layer) {
            if (str_starts_with($path, $layer . '/')) {
                return $layer;
            }
        }
        self::fail("$path belongs to no layer; add it to the table.");
    }

    /** @return list<string> The qualified names in the code, imports included; comments do not count. */
    private function namesIn(string $path): array
    {
        $names = [];
        foreach (\PhpToken::tokenize($this->read($path)) as $token) {
            if ($token->is([\T_NAME_QUALIFIED, \T_NAME_FULLY_QUALIFIED])) {
                $name = ltrim($token->text, '\\');
                // Global names, such as \RuntimeException, belong to PHP.
                if (str_contains($name, '\\')) {
                    $names[] = $name;
                }
            }
        }

        return $names;
    }

    private function read(string $path): string
    {
        return (string) file_get_contents(dirname(__DIR__) . '/src/' . $path);
    }
}
