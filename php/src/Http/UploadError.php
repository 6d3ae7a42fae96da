<?php

declare(strict_types=1);

namespace Hearth\Http;

/** A RuntimeException, as PSR-7 asks of UploadedFileInterface. */
final class UploadError extends \RuntimeException
{
    /** @param int $error One of PHP's UPLOAD_ERR_* constants. */
    public static function notReceived(string $name, int $error): self
    {
        return new self(sprintf('The file "%s" was not received: upload error %d.', $name, $error));
    }

    public static function alreadyMoved(string $name): self
    {
        return new self(sprintf('The uploaded file "%s" was moved already.', $name));
    }

    public static function notMoved(string $name, string $target, string $reason): self
    {
        return new self(sprintf('Moving the uploaded file "%s" to "%s" failed: %s', $name, $target, $reason));
    }
}
