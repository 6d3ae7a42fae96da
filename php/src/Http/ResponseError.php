<?php

declare(strict_types=1);

namespace Hearth\Http;

final class ResponseError extends \LogicException
{
    public static function headersSent(string $file, int $line): self
    {
        return new self(sprintf(
            'The response cannot be sent: output was sent before, from %s line %d. A handler returns its output.',
            $file,
            $line,
        ));
    }
}
