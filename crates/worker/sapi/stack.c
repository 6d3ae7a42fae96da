/*
 * Where PHP stands, as text: a line for each frame.
 *
 *     #0 sleep()
 *     #1 App\Report->build() /app/src/Report.php:12
 *     #2 /app/public/index.php:7
 *
 * Called in a signal handler, at any instruction of the engine or of a
 * library: frames may be half made, and what they point to may be freed. So
 * nothing is followed that has not been copied by the kernel, which answers
 * EFAULT where a read would be a crash; and nothing is allocated, locked or
 * changed. The copy goes through a pipe: process_vm_readv(2) is refused in
 * many containers.
 *
 * Runs in: worker. Called by: ask.c.
 */
#include "context.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_FRAMES 64
/* Bytes of a name or path that are shown. */
#define MAX_NAME 400

typedef struct view {
	/* Empty between two reads. */
	int    pipe[2];
	char  *at;
	char  *end;
} view;

/* As memcpy(), from memory that may not be there. Bare system calls: those of the C library are watched. */
static bool peek(const view *view, void *to, const void *from, size_t len)
{
	/* A write of so little is whole or fails (pipe(7)), except one that runs into memory that is not there. */
	long written = from && len <= PIPE_BUF ? syscall(SYS_write, view->pipe[1], from, len) : 0;

	return written > 0 && syscall(SYS_read, view->pipe[0], to, (size_t) written) == (long) len;
}

static void put(view *view, const char *bytes, size_t len)
{
	size_t room = (size_t) (view->end - view->at);

	len = len < room ? len : room;
	memcpy(view->at, bytes, len);
	view->at += len;
}

static void put_text(view *view, const char *text)
{
	put(view, text, strlen(text));
}

static void put_number(view *view, uint32_t number)
{
	char digits[10];
	size_t first = sizeof(digits);

	do {
		digits[--first] = (char) ('0' + number % 10);
		number /= 10;
	} while (number);
	put(view, digits + first, sizeof(digits) - first);
}

/* A name of the application. Those of anonymous classes go on behind a NUL. False: there is none. */
static bool put_string(view *view, const zend_string *string)
{
	char bytes[MAX_NAME];
	size_t len, i;

	if (!peek(view, &len, &string->len, sizeof(len)) || len == 0) {
		return false;
	}
	len = len < sizeof(bytes) ? len : sizeof(bytes);
	if (!peek(view, bytes, string->val, len)) {
		return false;
	}
	len = strnlen(bytes, len);
	for (i = 0; i < len; i++) {
		if ((unsigned char) bytes[i] < ' ' || bytes[i] == 0x7f) {
			bytes[i] = '?';
		}
	}
	put(view, bytes, len);
	return true;
}

/* What all functions have, and what only those of the application do. A call of the kernel takes longer than to copy all of it. */
typedef union function {
	__typeof__(((zend_function *) NULL)->common) common;
	zend_op_array code;
} function;

static bool peek_function(const view *view, function *function, const zend_function *from)
{
	return peek(view, &function->common, from, sizeof(function->common))
		&& (!ZEND_USER_CODE(function->common.type) || peek(view, &function->code, from, sizeof(function->code)));
}

/* Whether `op` is an instruction of the function. */
static bool is_in(const function *function, const zend_op *op)
{
	uintptr_t offset = (uintptr_t) op - (uintptr_t) function->code.opcodes;

	return (uintptr_t) op >= (uintptr_t) function->code.opcodes
		&& offset / sizeof(zend_op) < function->code.last && offset % sizeof(zend_op) == 0;
}

/*
 * The line at which a frame stands. The engine keeps the instruction of the innermost one in a register, and writes
 * it to the frame before what may fail.
 */
static uint32_t line_of(const view *view, const function *function, const zend_op *in_frame, const zend_op *in_register)
{
	const zend_op *op = is_in(function, in_register) ? in_register : in_frame;
	uint32_t line;

	if (!is_in(function, op)) {
		op = EG(opline_before_exception);
	}
	if (is_in(function, op) && peek(view, &line, &op->lineno, sizeof(line))) {
		return line;
	}
	return function->code.line_start;
}

static void put_name(view *view, const function *function, const zend_execute_data *frame)
{
	zend_string *class;

	if (function->common.scope && peek(view, &class, &function->common.scope->name, sizeof(class))
			&& put_string(view, class)) {
		put_text(view, Z_TYPE(frame->This) == IS_OBJECT ? "->" : "::");
	}
	if (put_string(view, function->common.function_name)) {
		put_text(view, "()");
	}
}

/* False: this is no frame. */
static bool put_frame(view *view, const zend_execute_data *frame, const zend_op *in_register)
{
	function function;

	if (!peek_function(view, &function, frame->func)) {
		return false;
	}
	if (function.common.type == ZEND_INTERNAL_FUNCTION) {
		put_name(view, &function, frame);
		return true;
	}
	if (!ZEND_USER_CODE(function.common.type)) {
		return false;
	}
	if (function.common.function_name) {
		put_name(view, &function, frame);
		put_text(view, " ");
	}
	if (!put_string(view, function.code.filename)) {
		put_text(view, "?");
	}
	put_text(view, ":");
	put_number(view, line_of(view, &function, frame->opline, in_register));
	return true;
}

size_t hearth_write_stack(char *text, size_t capacity, const void *frame_register, const void *op_register)
{
	view view = { { -1, -1 }, text, text + capacity };
	const zend_execute_data *at = EG(current_execute_data);
	zend_execute_data frame;
	uint32_t number = 0;

	if (syscall(SYS_pipe2, view.pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
		put_text(&view, "unknown: no pipe can be made to look through");
		return (size_t) (view.at - text);
	}
	while (at && number < MAX_FRAMES) {
		char *start = view.at;

		if (!peek(&view, &frame, at, sizeof(frame))) {
			break;
		}
		/* Those of generators that wait for another have no function. */
		if (frame.func) {
			if (number > 0) {
				put_text(&view, "\n");
			}
			put_text(&view, "#");
			put_number(&view, number);
			put_text(&view, " ");
			if (!put_frame(&view, &frame, frame_register == at ? op_register : NULL)) {
				view.at = start;
				break;
			}
			number++;
		}
		if (frame.prev_execute_data == at) {
			break;
		}
		at = frame.prev_execute_data;
	}
	if (number == MAX_FRAMES && at) {
		put_text(&view, "\n…");
	}
	(void) syscall(SYS_close, view.pipe[0]);
	(void) syscall(SYS_close, view.pipe[1]);
	return (size_t) (view.at - text);
}
