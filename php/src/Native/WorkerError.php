<?php

declare(strict_types=1);

namespace Hearth\Native;

final class WorkerError extends \LogicException
{
    public static function notInWorker(): self
    {
        return new self(
            'This process serves no resident pool. Start the script with "hearth serve", pool.NAME.mode = "resident".'
        );
    }
}
