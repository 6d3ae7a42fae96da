<?php

declare(strict_types=1);

namespace Hearth\Http;

use Psr\Http\Message\StreamFactoryInterface;

/**
 * Turns `$_FILES` into the tree of PSR-7. PHP keeps one tree for each property of a file (`name`, `size`, …) where the
 * form has one tree of files (RFC 7578 knows flat names only; the brackets are PHP's).
 */
final class UploadedFileTree
{
    public function __construct(private readonly StreamFactoryInterface $streams)
    {
    }

    /**
     * @param array<array-key, array<string, mixed>> $files As `$_FILES`.
     *
     * @return array<array-key, mixed> Leaves are UploadedFile.
     */
    public function build(array $files): array
    {
        return array_map($this->node(...), $files);
    }

    /**
     * @param array<string, mixed> $properties
     *
     * @return UploadedFile|array<array-key, mixed>
     */
    private function node(array $properties): UploadedFile|array
    {
        if (!is_array($properties['error'])) {
            return new UploadedFile(
                $this->streams,
                (string) $properties['tmp_name'],
                (int) $properties['size'],
                (int) $properties['error'],
                (string) $properties['name'],
                (string) $properties['type'],
            );
        }

        $nodes = [];
        foreach (array_keys($properties['error']) as $key) {
            $nodes[$key] = $this->node(array_map(
                static fn (mixed $property): mixed => is_array($property) ? $property[$key] ?? '' : '',
                $properties,
            ));
        }

        return $nodes;
    }
}
