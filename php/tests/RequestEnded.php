<?php

declare(strict_types=1);

namespace Hearth\Tests;

/** Stands for exit() in a handler: the request is over, the host goes on with the next. */
final class RequestEnded extends \Exception
{
}
