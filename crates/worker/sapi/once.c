/*
 * hearth_request(): what a script does above the call is booted once, what it
 * does below is the request, to the end of the script.
 *
 * The script waits in the call, as one does in hearth_handle_request(). Once
 * there is a request, the call returns, and the end of the script is the end
 * of the request: of an isolated worker by hearth_end_isolated(), after which
 * its memory is put back; in a warm-up with the script, which starts again.
 *
 * Runs in: zygote | worker. Called by: functions.c, request.c.
 */
#include "context.h"

#include <Zend/zend_exceptions.h>
#include <ext/spl/spl_exceptions.h>
#include <ext/standard/basic_functions.h>

#define PLACE_MAX 1024

/* "FILE:LINE" of the first output and of the first header while a script boots; empty: none. Process memory. */
static char output_began[PLACE_MAX];
static char header_began[PLACE_MAX];
static zend_write_func_t next_write;

/* {{{ What stands above */

static void note_place(char *place)
{
	if (!place[0]) {
		snprintf(place, PLACE_MAX, "%s:%u", zend_get_executed_filename(), zend_get_executed_lineno());
	}
}

/* Code that the JIT compiles while a script boots calls this one ever after. */
static size_t write_noted(const char *bytes, size_t len)
{
	if (len > 0 && hearth.phase == PHASE_BOOT) {
		note_place(output_began);
	}
	return next_write(bytes, len);
}

static int note_header(sapi_header_struct *header, sapi_header_op_enum op, sapi_headers_struct *headers)
{
	if (op == SAPI_HEADER_ADD || op == SAPI_HEADER_REPLACE) {
		note_place(header_began);
	}
	return SAPI_HEADER_ADD;
}

void hearth_watch_boot(bool on)
{
	if (on) {
		output_began[0] = header_began[0] = '\0';
		if (zend_write != write_noted) {
			next_write = zend_write;
			zend_write = write_noted;
		}
		sapi_module.header_handler = note_header;
		return;
	}
	if (zend_write == write_noted) {
		zend_write = next_write;
	}
	sapi_module.header_handler = NULL;
}

static void say_dropped(const char *what, const char *place)
{
	char *text;
	size_t len;

	/* The script that serves says the same. */
	if (hearth.warming) {
		return;
	}
	len = spprintf(&text, 0, "the %s above hearth_request() belongs to no request and is dropped (the first is in %s): "
		"move it below the call", what, place);
	hearth_log(LOG_WARNING, text, len);
	efree(text);
}

static void say_what_is_dropped(void)
{
	if (!output_began[0] && php_output_get_start_filename()) {
		snprintf(output_began, PLACE_MAX, "%s:%d", php_output_get_start_filename(), php_output_get_start_lineno());
	}
	if (output_began[0]) {
		say_dropped("output", output_began);
	}
	if (header_began[0]) {
		say_dropped("header", header_began);
	}
}

/* php-fpm sets neither; what the boot has made of them is its own. */
static void forget_arguments(void)
{
	zval *argv = zend_hash_find_ind(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_ARGV));

	if (argv && Z_TYPE_P(argv) == IS_ARRAY && Z_ARR_P(argv) == hearth.boot_argv) {
		zend_hash_del_ind(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_ARGV));
		zend_hash_del_ind(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_ARGC));
	}
}
/* }}} */

/* {{{ Where no request can begin */

static bool is_in_destructor(void)
{
	const zend_execute_data *frame;

	for (frame = EG(current_execute_data); frame; frame = frame->prev_execute_data) {
		const zend_function *function = frame->func;

		if (function && function->common.scope && function->common.scope->destructor == function) {
			return true;
		}
	}
	return false;
}

/* Whether the frame runs a `finally` because of an exception, which Zend/zend_vm_def.h ZEND_FAST_RET (8.2) throws again behind it. */
static bool holds_exception(const zend_execute_data *frame)
{
	const zend_op_array *code = &frame->func->op_array;
	uint32_t at = (uint32_t) (frame->opline - code->opcodes);
	int i;

	for (i = 0; i < code->last_try_catch && code->try_catch_array[i].try_op <= at; i++) {
		const zend_try_catch_element *part = &code->try_catch_array[i];

		if (part->finally_op && at >= part->finally_op && at < part->finally_end
				&& Z_OBJ_P(ZEND_CALL_VAR(frame, code->opcodes[part->finally_end].op1.var))) {
			return true;
		}
	}
	return false;
}

static bool is_exception_in_flight(void)
{
	const zend_execute_data *frame;

	for (frame = EG(current_execute_data); frame; frame = frame->prev_execute_data) {
		if (frame->func && ZEND_USER_CODE(frame->func->type) && holds_exception(frame)) {
			return true;
		}
	}
	return false;
}

/* What keeps a boot from ending here, or NULL. */
static const char *obstacle(void)
{
	if (OG(running)) {
		return "in an output callback";
	}
	if (is_in_destructor()) {
		return "in a destructor";
	}
	if (EG(in_autoload) && zend_hash_num_elements(EG(in_autoload)) > 0) {
		return "in an autoloader";
	}
	if (EG(flags) & EG_FLAGS_IN_SHUTDOWN) {
		return "in a shutdown function";
	}
	if (is_exception_in_flight()) {
		return "while an exception is thrown";
	}
	return NULL;
}

/* Throws, unless the boot may end here. */
static bool may_wait(void)
{
	const char *why = NULL;

	if (hearth.phase == PHASE_REQUEST) {
		why = hearth.once ? "hearth_request() was called a second time: one request a run of the script"
			: "hearth_request() was called while hearth_handle_request() handles a request";
	} else if (hearth.phase != PHASE_BOOT) {
		why = "hearth_request() was called after hearth_handle_request(): a script calls one of the two";
	} else if (hearth_script_has_session()) {
		why = "a session was started above hearth_request(): start it below the call, where the request is";
	}
	if (why) {
		zend_throw_exception(spl_ce_RuntimeException, why, 0);
		return false;
	}
	why = obstacle();
	if (why) {
		zend_throw_exception_ex(spl_ce_RuntimeException, 0, "hearth_request() cannot wait for a request %s: "
			"call it in the script, in a function or in a fiber", why);
		return false;
	}
	return true;
}
/* }}} */

/* {{{ The request */

static void begin(void)
{
	volatile bool begun = false;

	zend_try {
		hearth_begin_request();
		hearth_give_input();
		begun = true;
	} zend_end_try();
	/* Even if it has ended while its variables were read. */
	PG(modules_activated) = true;
	if (!begun) {
		zend_bailout();
	}
}

/* Not a line of the script runs again: what has served nothing has nothing to tidy up. */
static void leave(void)
{
	zend_objects_store_mark_destructed(&EG(objects_store));
	php_free_shutdown_functions();
	zend_throw_unwind_exit();
}

void hearth_request_of_script(void)
{
	hearth_end_child();
	if (!may_wait()) {
		return;
	}
	hearth_front_controller_waits();
	if (EG(exception)) {
		return;
	}
	hearth_warm_before_first_request();
	/* Callbacks of the boot get what they have not had yet, and may throw. */
	php_output_end_all();
	if (EG(exception)) {
		return;
	}
	say_what_is_dropped();
	hearth_tell_reads_above();
	hearth.once = true;
	hearth_keep_added();
	forget_arguments();
	hearth_end_boot();
	if (hearth_wait_for_request()) {
		begin();
	} else {
		hearth_begin_drain();
		leave();
	}
}
/* }}} */
