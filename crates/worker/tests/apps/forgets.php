<?php

/*
 * A worker script that never asks for a request.
 *
 * Runs in: zygote. Called by: tests/it.
 */

declare(strict_types=1);

echo 'I know nothing of requests';
