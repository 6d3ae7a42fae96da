<?php

/*
 * The functions that hearth-worker adds to PHP, for editors and static analysis. Never loaded at run time: there they
 * are C, and what is written here is their contract.
 */

declare(strict_types=1);

// Levels of hearth_log(); numbers between them are rounded down.
const HEARTH_LOG_LEVEL_DEBUG = -4;
const HEARTH_LOG_LEVEL_INFO = 0;
const HEARTH_LOG_LEVEL_WARN = 4;
const HEARTH_LOG_LEVEL_ERROR = 8;

// The names of the same levels in scripts written for FrankenPHP.
const FRANKENPHP_LOG_LEVEL_DEBUG = -4;
const FRANKENPHP_LOG_LEVEL_INFO = 0;
const FRANKENPHP_LOG_LEVEL_WARN = 4;
const FRANKENPHP_LOG_LEVEL_ERROR = 8;

/**
 * Waits for the next request, calls `$handler` with it and completes the response.
 *
 * Superglobals, php://input, headers and output belong to the request while `$handler` runs; it gets no arguments and
 * its return value is dropped. An uncaught exception, exit() or a fatal error in it ends this request as under php-fpm.
 *
 * With isolation "request" the request ends when the script asks for the next one, or ends: what stands behind the call
 * belongs to the request, and does not run after exit() or an uncaught exception.
 *
 * The first call ends the boot: what was printed before it is discarded.
 *
 * @return bool False when the worker is to end; `$handler` was not called then, and the script should return.
 *
 * @throws RuntimeException Outside of a resident pool, or from within `$handler`.
 */
function hearth_handle_request(callable $handler): bool
{
}

/**
 * Waits for a request and returns into it: what stands above the call is booted once, what stands below it is the
 * request, to the end of the script.
 *
 * Above, superglobals are empty except for the environment; output and headers are dropped with a warning. Below,
 * they are the request's. Does nothing where the script runs from its top for each request, as in a classic pool.
 *
 * It needs isolation "request". When the worker is to end, nothing of the script runs any more.
 *
 * @throws RuntimeException When it is called a second time in a request, with a session open, after
 *                          hearth_handle_request(), or in an output callback, a destructor, an autoloader, a shutdown
 *                          function, or while an exception is thrown.
 */
function hearth_request(): void
{
}

/**
 * Sends the response head now.
 *
 * 1xx sends an interim response with the headers set so far (103 Early Hints); status and headers of the final
 * response stay as they are. Any other status is final: the head is sent and later header() calls fail.
 *
 * @param int $status 100 to 599, default 200.
 *
 * @return int Negative if nothing was sent.
 *
 * @throws ValueError For any other status.
 */
function headers_send(int $status = 200): int
{
}

/**
 * Completes the response; the script goes on and its output is dropped from here.
 *
 * @return bool False if the response was complete already.
 */
function fastcgi_finish_request(): bool
{
}

/**
 * The headers of the request, under the names the client sent them with.
 *
 * @return array<string, string>
 */
function getallheaders(): array
{
}

/**
 * The headers of the response so far.
 *
 * @return array<string, string>
 */
function apache_response_headers(): array
{
}

/**
 * The name of hearth_handle_request() that worker scripts written for FrankenPHP call.
 *
 * @throws RuntimeException Outside of a resident pool.
 */
function frankenphp_handle_request(callable $callback): bool
{
}

/** The name of fastcgi_finish_request() that scripts written for FrankenPHP call. */
function frankenphp_finish_request(): bool
{
}

/**
 * Writes a line to Hearth's log, with the request that runs.
 *
 * Unlike a line of error_log() it has the level that is given here, whatever its text says. `log.php_level` decides
 * which levels are shown.
 *
 * @param array<mixed> $context Is written behind the message as JSON. What JSON has no place for is left out.
 */
function hearth_log(string $message, int $level = HEARTH_LOG_LEVEL_INFO, array $context = []): void
{
}

/**
 * The name of hearth_log() that scripts written for FrankenPHP call.
 *
 * @param array<mixed> $context
 */
function frankenphp_log(string $message, int $level = FRANKENPHP_LOG_LEVEL_INFO, array $context = []): void
{
}
