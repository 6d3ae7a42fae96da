/*
 * What happens in a resident request: its begin and its end, each one list in
 * one function.
 *
 * A resident request leaves alone what belongs to the script: globals,
 * statics, objects, ini settings, handlers, the environment. It resets what
 * belongs to the request: output, headers, superglobals, input, session,
 * shutdown functions, last error, random seeds, limits.
 *
 * Runs in: worker (and zygote, for the boot of a worker script). Called by:
 * sapi.c, functions.c and once.c.
 */
#include "context.h"

#include <string.h>
#include <sys/stat.h>

#include <Zend/zend_exceptions.h>
#include <Zend/zend_list.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/php_filestat.h>
#include <main/php_ini.h>

/* How often a script may ask for a request after it was told that there are no more. */
#define MAX_DRAIN_CALLS 16

/* {{{ Parts of both lists */

void hearth_fill_request_info(void)
{
	const sapi_request *request = hearth.request;
	const sapi_str *script_name = hearth_param(ZEND_STRL("SCRIPT_NAME"));

	memset(&SG(request_info), 0, sizeof(SG(request_info)));
	SG(server_context) = &hearth;
	hearth.filter_fed = false;
	hearth_limit_ms = 0;
	SG(sapi_headers).http_response_code = 200;
	if (!request) {
		return;
	}
	SG(request_info).request_method = request->method.bytes;
	SG(request_info).query_string = (char *) request->query.bytes;
	/* php-fpm has the script's URL here, not the whole of it. */
	SG(request_info).request_uri = script_name ? (char *) script_name->bytes : NULL;
	SG(request_info).path_translated = (char *) request->script.bytes;
	SG(request_info).content_type = request->content_type.bytes ? request->content_type.bytes : "";
	SG(request_info).content_length = request->content_length > 0 ? request->content_length : 0;
	SG(request_info).proto_num = (int) request->proto_num;
	php_handle_auth_data(request->authorization.bytes);
}

/* The host's strings are valid until sapi_serve() returns: keep no pointer to them. */
void hearth_forget_request_info(void)
{
	SG(request_info).request_method = NULL;
	SG(request_info).query_string = NULL;
	SG(request_info).request_uri = NULL;
	SG(request_info).path_translated = NULL;
	SG(request_info).content_type = NULL;
	SG(request_info).cookie_data = NULL;
}

/* As main/main.c clear_last_error() (8.2). */
static void clear_last_error(void)
{
	if (PG(last_error_message)) {
		zend_string_release(PG(last_error_message));
		PG(last_error_message) = NULL;
	}
	if (PG(last_error_file)) {
		zend_string_release(PG(last_error_file));
		PG(last_error_file) = NULL;
	}
	PG(last_error_type) = 0;
	PG(last_error_lineno) = 0;
}

/* As in main/main.c php_request_startup() (8.2). */
static void start_output(void)
{
	if (PG(output_handler) && PG(output_handler)[0]) {
		zval handler;

		ZVAL_STRING(&handler, PG(output_handler));
		php_output_start_user(&handler, 0, PHP_OUTPUT_HANDLER_STDFLAGS);
		zval_ptr_dtor(&handler);
	} else if (PG(output_buffering)) {
		php_output_start_user(NULL, PG(output_buffering) > 1 ? PG(output_buffering) : 0, PHP_OUTPUT_HANDLER_STDFLAGS);
	} else if (PG(implicit_flush)) {
		php_output_set_implicit_flush(1);
	}
}

static void add_powered_by(void)
{
	sapi_header_line line = {0};
	char *text;

	line.line_len = spprintf(&text, 0, "X-Powered-By: PHP/%s", sapi_php_version());
	line.line = text;
	sapi_header_op(SAPI_HEADER_REPLACE, &line);
	efree(text);
}

/* What ignore_user_abort() was at the end of the boot; through the ini entry, so that ini_get() agrees. */
static void restore_ignore_user_abort(void)
{
	zend_string *name = zend_string_init(ZEND_STRL("ignore_user_abort"), 0);

	zend_alter_ini_entry_chars(name, hearth.boot_ignore_user_abort ? "1" : "0", 1, PHP_INI_USER, PHP_INI_STAGE_RUNTIME);
	zend_string_release(name);
}

/* Drops what this request registered with register_tick_function(). */
static void forget_ticks(void)
{
	zend_llist *ticks = BG(user_tick_functions);

	while (ticks && zend_llist_count(ticks) > hearth.boot_ticks) {
		zend_llist_remove_tail(ticks);
	}
}

/*
 * What zend_execute_scripts() does with an exception nobody caught (php-src Zend/zend.c, 8.2). The handler stays
 * set, even if it ends in exit().
 */
static void end_exception(void)
{
	zval handler;
	int depth = zend_stack_count(&EG(user_exception_handlers));

	if (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception))) {
		zend_clear_exception();
		return;
	}
	ZVAL_COPY_VALUE(&handler, &EG(user_exception_handler));
	zend_try {
		if (Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
			zend_user_exception_handler();
		}
		if (EG(exception)) {
			zend_exception_error(EG(exception), E_ERROR);
		}
	} zend_catch {
		if (Z_TYPE(EG(user_exception_handler)) == IS_UNDEF) {
			while (zend_stack_count(&EG(user_exception_handlers)) > depth) {
				zend_stack_del_top(&EG(user_exception_handlers));
			}
			ZVAL_COPY_VALUE(&EG(user_exception_handler), &handler);
		}
	} zend_end_try();
}
/* }}} */

/* {{{ A resident request */

/*
 * The list at the beginning. Order as in main/main.c php_request_startup() (8.2). May bail out.
 */
void hearth_begin_request(void)
{
	zend_execute_data *frame = EG(current_execute_data);
	zval error_handler;

	hearth.finished = false;
	hearth.headers_sent = false;
	hearth.fatal = false;
	hearth.uncaught = false;
	hearth.phase = PHASE_REQUEST;
	if (!hearth.isolated && !hearth.once) {
		/* Shutdown functions registered from here on are the request's. */
		hearth.boot_shutdown_functions = BG(user_shutdown_function_names);
		BG(user_shutdown_function_names) = NULL;
	}
	/* No handler of the application sees what goes wrong before its handler runs: php-fpm has none yet either. */
	ZVAL_COPY_VALUE(&error_handler, &EG(user_error_handler));
	ZVAL_UNDEF(&EG(user_error_handler));
	/* Nor is there a line of code to blame. */
	EG(current_execute_data) = NULL;

	hearth_fill_request_info();
	clear_last_error();
	EG(exit_status) = 0;
	PG(in_error_log) = 0;
	PG(during_request_startup) = 1;
	php_output_activate();
	PG(header_is_being_sent) = 0;
	PG(connection_status) = PHP_CONNECTION_NORMAL;
	if (PG(ignore_user_abort) != hearth.boot_ignore_user_abort) {
		restore_ignore_user_abort();
	}
	sapi_activate();
	if (EG(timeout_seconds) > 0) {
		zend_set_timeout(EG(timeout_seconds), 0);
	}
	if (PG(expose_php)) {
		add_powered_by();
	}
	start_output();
	hearth_reseed();
	php_clear_stat_cache(0, NULL, 0);
	zend_memory_reset_peak_usage();
	hearth_import_superglobals();
	hearth_call_module(ZEND_STRL("filter"), true);
	/* Starts zlib.output_compression. */
	hearth_call_module(ZEND_STRL("zlib"), true);
	hearth_begin_session();
	SG(sapi_started) = 1;

	PG(during_request_startup) = 0;
	EG(current_execute_data) = frame;
	ZVAL_COPY_VALUE(&EG(user_error_handler), &error_handler);
}

void hearth_enter_shutdown(void)
{
	EG(flags) |= EG_FLAGS_IN_SHUTDOWN;
	/* With no frame an exception in a shutdown function is reported, instead of left for a caller. */
	EG(current_execute_data) = NULL;
	if (EG(exception)) {
		zend_try {
			end_exception();
		} zend_end_try();
	}
}

/*
 * The list at the end. Order as in main/main.c php_request_shutdown() (8.2), without what ends the script. Each
 * step stands alone, so that one that fails does not keep the next from running. False: an error was fatal, the
 * script must end.
 */
static bool request_end(void)
{
	hearth_enter_shutdown();
	if (!hearth.fatal) {
		php_call_shutdown_functions();
		php_free_shutdown_functions();
	}
	if (hearth.fatal) {
		return false;
	}
	compat_clear_delayed_oom();
	zend_try {
		php_output_end_all();
	} zend_end_try();
	hearth_end_session();
	zend_try {
		hearth_call_module(ZEND_STRL("filter"), false);
	} zend_end_try();
	zend_try {
		hearth_call_module(ZEND_STRL("zlib"), false);
	} zend_end_try();
	zend_try {
		php_output_deactivate();
	} zend_end_try();
	zend_try {
		hearth_close_input();
	} zend_end_try();
	zend_try {
		sapi_deactivate();
	} zend_end_try();
	hearth_forget_request_info();
	forget_ticks();
	/* As ext/standard/basic_functions.c PHP_RSHUTDOWN_FUNCTION(basic) does. */
	if (BG(umask) != -1) {
		umask(BG(umask));
		BG(umask) = -1;
	}
	zend_set_memory_limit(PG(memory_limit));
	BG(user_shutdown_function_names) = hearth.boot_shutdown_functions;
	CG(unclean_shutdown) = 0;
	hearth.uncaught = false;
	EG(flags) &= ~EG_FLAGS_IN_SHUTDOWN;
	return !hearth.fatal;
}

/* The script's end runs all shutdown functions, in the order of registration. */
static void join_shutdown_functions(void)
{
	HashTable *boot = hearth.boot_shutdown_functions;
	HashTable *request = BG(user_shutdown_function_names);

	if (boot && request && boot != request) {
		void *entry;

		BG(user_shutdown_function_names) = boot;
		zend_try {
			ZEND_HASH_FOREACH_PTR(request, entry) {
				zend_hash_next_index_insert_ptr(boot, entry);
			} ZEND_HASH_FOREACH_END();
		} zend_end_try();
		request->pDestructor = NULL;
		zend_hash_destroy(request);
		FREE_HASHTABLE(request);
	} else if (boot) {
		BG(user_shutdown_function_names) = boot;
	}
}

/*
 * The request ends the script, as a fatal error does under php-fpm: php_request_shutdown() at the end of
 * hearth_run_worker() completes the response.
 */
static ZEND_COLD ZEND_NORETURN void abandon(void)
{
	hearth.fatal = true;
	join_shutdown_functions();
	zend_bailout();
}

/*
 * exit() or an uncaught exception ends the script, as a worker of FrankenPHP expects: its frames are left without
 * `catch` and `finally`, and php_request_shutdown() completes the response as after a classic script.
 */
static void leave_script(void)
{
	zend_execute_data *frame = EG(current_execute_data);

	if (!zend_is_unwind_exit(EG(exception))) {
		EG(current_execute_data) = NULL;
		end_exception();
		EG(current_execute_data) = frame;
	}
	if (hearth.fatal) {
		abandon();
	}
	join_shutdown_functions();
	if (!EG(exception)) {
		zend_throw_unwind_exit();
	}
}

bool hearth_call_handler(zend_fcall_info *fci, zend_fcall_info_cache *fcc)
{
	volatile bool returned = false;
	zval result;

	ZVAL_UNDEF(&result);
	fci->retval = &result;
	zend_try {
		hearth_begin_request();
		zend_call_function(fci, fcc);
		zval_ptr_dtor(&result);
		returned = true;
	} zend_end_try();
	/* Even if it has ended while its variables were read. */
	PG(modules_activated) = true;
	return returned;
}

/* What the script does until it asks for the next request belongs to none: its output is logged, its buffers end there. */
static void begin_between(void)
{
	hearth.phase = PHASE_BETWEEN;
	SG(request_info).no_headers = 1;
	php_output_activate();
}

static void end_between(void)
{
	php_output_end_all();
	php_output_deactivate();
}

static void serve(zend_fcall_info *fci, zend_fcall_info_cache *fcc, hearth_exit_ends exit_ends)
{
	zend_execute_data *frame = EG(current_execute_data);
	bool returned = hearth_call_handler(fci, fcc);

	if (exit_ends == EXIT_ENDS_SCRIPT && returned && EG(exception)) {
		EG(current_execute_data) = frame;
		leave_script();
		return;
	}
	if (!returned || !request_end()) {
		abandon();
	}
	EG(current_execute_data) = frame;
	begin_between();
}

/* The boot ran in a request of its own, as far as PHP is concerned; it ends here. */
void hearth_end_boot(void)
{
	hearth_watch_boot(false);
	php_output_end_all();
	hearth_end_session();
	hearth_call_module(ZEND_STRL("filter"), false);
	hearth_call_module(ZEND_STRL("zlib"), false);
	php_output_deactivate();
	if (hearth.once) {
		hearth_keep_input();
	} else {
		hearth_close_input();
	}
	sapi_deactivate();
	zend_unset_timeout();
	hearth_note_references();
	PG(register_argc_argv) = hearth.register_argc_argv;
	hearth.boot_ignore_user_abort = PG(ignore_user_abort);
	hearth.boot_ticks = BG(user_tick_functions) ? zend_llist_count(BG(user_tick_functions)) : 0;
}

void hearth_begin_drain(void)
{
	hearth.phase = PHASE_DRAIN;
	hearth.drain_calls = 0;
	php_output_activate();
	hearth_fill_request_info();
	sapi_activate();
	SG(request_info).no_headers = 1;
	SG(post_read) = 1;
}

bool hearth_wait_for_request(void)
{
	hearth.phase = PHASE_BETWEEN;
	hearth_yield(SAPI_WAITING);
	while (hearth.task != TASK_NONE) {
		hearth_perform();
		/* Every request starts here. */
		hearth_yield(SAPI_WAITING);
	}
	return hearth.request != NULL;
}

bool hearth_next_request(zend_fcall_info *fci, zend_fcall_info_cache *fcc, hearth_exit_ends exit_ends)
{
	hearth_end_child();
	if (hearth.phase == PHASE_DRAIN) {
		if (++hearth.drain_calls >= MAX_DRAIN_CALLS && !EG(exception)) {
			hearth_log(LOG_WARNING, ZEND_STRL("the worker script ignores that there are no more requests and is ended"));
			zend_throw_unwind_exit();
		}
		return false;
	}
	if (hearth.handled) {
		hearth_end_isolated();
	}
	if (hearth.phase == PHASE_BOOT) {
		hearth_forget_front_controller();
		if (EG(exception)) {
			return false;
		}
		hearth_warm_before_first_request();
		hearth_end_boot();
	} else if (hearth.phase == PHASE_BETWEEN) {
		end_between();
		if (EG(exception)) {
			return false;
		}
	}
	hearth_leaks_after();
	if (!hearth_wait_for_request()) {
		hearth_begin_drain();
		if (hearth.leaving) {
			zend_throw_unwind_exit();
		}
		return false;
	}
	if (hearth.isolated) {
		hearth_serve_isolated(fci, fcc);
		return true;
	}
	hearth_leaks_before();
	serve(fci, fcc, exit_ends);
	return true;
}

static sapi_end why_ended(bool returned)
{
	if (hearth.fatal) {
		return SAPI_END_FATAL;
	}
	if (hearth.uncaught) {
		return SAPI_END_EXCEPTION;
	}
	/* zend_execute_scripts() answers "failure" for exit() too. */
	return returned ? SAPI_END_RETURNED : SAPI_END_EXIT;
}

void hearth_run_worker(void)
{
	/* Process memory: the host's string ends with sapi_start(). */
	char *script = pestrdup(hearth.script, 1);
	char *argv[] = { script, NULL };
	zend_file_handle file;
	bool returned;

	hearth.script = script;
	hearth.resident = true;
	hearth.running = true;
	hearth.fatal = false;
	hearth.uncaught = false;
	hearth.leaving = false;
	hearth.once = false;
	hearth.boot_input = NULL;
	hearth.boot_added = NULL;
	hearth.ended = SAPI_END_NONE;
	hearth_thrown_forget();
	hearth.phase = PHASE_BOOT;
	hearth.register_argc_argv = PG(register_argc_argv);
	PG(register_argc_argv) = 1;
	hearth_fill_request_info();
	SG(request_info).path_translated = script;
	SG(request_info).argc = 1;
	SG(request_info).argv = argv;
	if (php_request_startup() == FAILURE) {
		hearth.ended = SAPI_END_FATAL;
	} else {
		const zval *arguments = zend_hash_find(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_ARGV));

		hearth.boot_argv = arguments && Z_TYPE_P(arguments) == IS_ARRAY ? Z_ARR_P(arguments) : NULL;
		compat_set_stack(hearth.php_stack, PHP_STACK_SIZE);
		SG(request_info).no_headers = 1;
		hearth_watch_boot(true);
		hearth_keep_front_controller();
		zend_stream_init_filename(&file, script);
		file.primary_script = 1;
		returned = php_execute_script(&file);
		hearth_watch_boot(false);
		hearth_front_controller_ends();
		if (hearth.handled || (hearth.once && hearth.isolated && hearth.phase == PHASE_REQUEST)) {
			hearth_end_isolated();
		}
		hearth.ended = why_ended(returned);
		hearth.exit_status = EG(exit_status);
		hearth_thrown_report();
		zend_destroy_file_handle(&file);
	}
	hearth_warm_before_shutdown();
	php_request_shutdown(NULL);
	hearth_warm_after_shutdown();
	hearth_forget_request_info();
	PG(register_argc_argv) = hearth.register_argc_argv;
	hearth.phase = PHASE_IDLE;
	hearth.running = false;
	hearth.script = NULL;
	pefree(script, 1);
}
/* }}} */
