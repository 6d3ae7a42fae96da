<?php

/** @generate-function-entries */

/**
 * Waits for the next request and has $handler serve it. False once the worker is to end.
 *
 * @throws RuntimeException outside of a worker script, or from within $handler
 */
function hearth_handle_request(callable $handler): bool {}

/**
 * Waits for a request and returns into it: what stands above the call is booted once, what stands below it is the
 * request, to the end of the script. Does nothing where the script runs from the top for each request.
 *
 * @throws RuntimeException on a second call, and where no request can begin
 */
function hearth_request(): void {}

/**
 * As hearth_handle_request(), except that exit() and an uncaught exception in $handler end the script.
 *
 * @alias hearth_handle_request
 */
function frankenphp_handle_request(callable $handler): bool {}

/** Completes the response; the script goes on. False if it was complete already. */
function fastcgi_finish_request(): bool {}

/** @alias fastcgi_finish_request */
function frankenphp_finish_request(): bool {}

/** Sends the headers: an interim response for a status from 100 to 199, else the final head. */
function headers_send(int $status = 200): int {}

function getallheaders(): array {}

/** Writes a line with the level and the context to Hearth's log. */
function hearth_log(string $message, int $level = HEARTH_LOG_LEVEL_INFO, array $context = []): void {}

/** @alias hearth_log */
function frankenphp_log(string $message, int $level = FRANKENPHP_LOG_LEVEL_INFO, array $context = []): void {}

/** @alias getallheaders */
function apache_request_headers(): array {}

/** @alias getallheaders */
function frankenphp_request_headers(): array {}

function apache_response_headers(): array {}

/** @alias apache_response_headers */
function frankenphp_response_headers(): array {}
