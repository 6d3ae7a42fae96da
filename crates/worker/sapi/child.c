/*
 * Processes that a script forks (pcntl_fork(), FFI): each has a copy of the
 * worker, but must not go on as one. The exchange is its parent's, and so is
 * the host's memory, which both processes share. So the host is taken away from
 * the child at once: its output goes nowhere, what it logs goes to standard
 * error. It ends where its parent would ask for the next request, or at the
 * end of its script.
 *
 * Runs in: children of scripts. Called by: sapi.c, request.c, the C library.
 */
#include "context.h"

#include <pthread.h>
#include <unistd.h>

/* The host of the process that forked this one; NULL in a process of the host's own. */
static const sapi_host *host_of_parent;

static size_t drop(void *ctx, const char *bytes, size_t len)
{
	return len;
}

static bool flush(void *ctx)
{
	return true;
}

static bool drop_headers(void *ctx, int status, sapi_str reason, const sapi_str *lines, size_t count)
{
	return true;
}

static size_t read_nothing(void *ctx, char *buffer, size_t capacity)
{
	return 0;
}

static void finish(void *ctx)
{
}

static bool aborted(void *ctx)
{
	return false;
}

static void drop_leak(void *ctx, const sapi_leak *leak)
{
}

static void print(void *ctx, int level, const char *message, size_t len)
{
	if (write(STDERR_FILENO, message, len) >= 0) {
		(void) !write(STDERR_FILENO, "\n", 1);
	}
}

static void ignore(void *ctx)
{
}

static void ask_nothing(sapi_asked *asked)
{
	asked->request = 0;
	asked->limit_ms = 0;
}

static void drop_stack(uint64_t request, const char *text, size_t len)
{
}

static const sapi_host nobody = {
	drop, flush, drop_headers, read_nothing, finish, aborted, drop_leak, print, ignore, ask_nothing, drop_stack
};

static void lose_host(void)
{
	if (hearth.host != &nobody) {
		host_of_parent = hearth.host;
		hearth.host = &nobody;
	}
}

void hearth_child_startup(void)
{
	(void) pthread_atfork(NULL, hearth_note_child, lose_host);
}

void hearth_child_is_worker(void)
{
	if (host_of_parent) {
		hearth.host = host_of_parent;
		host_of_parent = NULL;
	}
}

void hearth_end_child(void)
{
	if (host_of_parent) {
		_exit(EG(exit_status));
	}
}
