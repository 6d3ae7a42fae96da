<?php

/*
 * A worker script that fails before its first request.
 *
 * Runs in: zygote. Called by: tests/it.
 */

declare(strict_types=1);

throw new RuntimeException('no database');
