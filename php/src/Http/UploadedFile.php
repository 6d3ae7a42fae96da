<?php

declare(strict_types=1);

namespace Hearth\Http;

use Psr\Http\Message\StreamFactoryInterface;
use Psr\Http\Message\StreamInterface;
use Psr\Http\Message\UploadedFileInterface;

/**
 * One entry of `$_FILES`. The file is opened only when it is read, and moved by renaming it; the PSR-17 factories know
 * streams alone, hence open every file and copy it to move it.
 *
 * The signatures fit psr/http-message 1 and 2.
 */
final class UploadedFile implements UploadedFileInterface
{
    private bool $moved = false;

    public function __construct(
        private readonly StreamFactoryInterface $streams,
        private readonly string $path,
        private readonly int $size,
        private readonly int $error,
        private readonly string $name,
        private readonly string $type,
    ) {
    }

    public function getStream(): StreamInterface
    {
        $this->assertPresent();

        return $this->streams->createStreamFromFile($this->path, 'rb');
    }

    public function moveTo($targetPath): void
    {
        $this->assertPresent();
        if (!is_string($targetPath) || '' === $targetPath) {
            throw new \InvalidArgumentException('The path to move an uploaded file to must be a non-empty string.');
        }
        if (!@move_uploaded_file($this->path, $targetPath)) {
            $reason = error_get_last()['message'] ?? 'it is no upload of this request';
            throw UploadError::notMoved($this->name, $targetPath, $reason);
        }
        $this->moved = true;
    }

    public function getSize(): ?int
    {
        return \UPLOAD_ERR_OK === $this->error ? $this->size : null;
    }

    public function getError(): int
    {
        return $this->error;
    }

    public function getClientFilename(): ?string
    {
        return '' === $this->name ? null : $this->name;
    }

    public function getClientMediaType(): ?string
    {
        return '' === $this->type ? null : $this->type;
    }

    private function assertPresent(): void
    {
        if (\UPLOAD_ERR_OK !== $this->error) {
            throw UploadError::notReceived($this->name, $this->error);
        }
        if ($this->moved) {
            throw UploadError::alreadyMoved($this->name);
        }
    }
}
