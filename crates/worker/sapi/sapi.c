/*
 * The SAPI module: boot, the coroutine PHP runs on, and what PHP asks of its
 * SAPI (write, headers, body, log). What happens in a request is in
 * request.c and classic.c; $_SERVER is in variables.c.
 *
 * Runs in: zygote | worker. Called by: php.rs.
 */
#include "context.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <Zend/zend_exceptions.h>
#include <Zend/zend_signal.h>

/* The address sanitizer is told which stack runs; it must know the end of what a longjmp() leaves. */
#ifdef __SANITIZE_ADDRESS__
# include <sanitizer/common_interface_defs.h>
# define LEAVING_FOR(fakes, stack, size) __sanitizer_start_switch_fiber(fakes, stack, size)
# define BACK_FROM(fakes, stack, size) __sanitizer_finish_switch_fiber(fakes, stack, size)
#else
# define LEAVING_FOR(fakes, stack, size) ((void) (fakes), (void) (stack), (void) (size))
# define BACK_FROM(fakes, stack, size) ((void) (fakes), (void) (stack), (void) (size))
#endif

#define PHP_STACK_GUARD ((size_t) 64 << 10)

#define FATAL_ERRORS (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR)

hearth_context hearth;
/* `hearth` as sapi_seal() left it. */
static hearth_context sealed;

/* switch.S */
void hearth_switch(void **save_sp, void *load_sp) __attribute__((visibility("hidden")));
void hearth_stack_start(void) __attribute__((visibility("hidden")));
void hearth_stack_main(void) __attribute__((visibility("hidden"), noreturn));

/* No header of PHP declares these of main/php_ini.c (8.2); ext/standard/info.c does so, too. */
extern PHPAPI char *php_ini_opened_path;
extern PHPAPI char *php_ini_scanned_files;

static void (*next_error_cb)(int type, zend_string *file, const uint32_t line, zend_string *message);

void hearth_log(int level, const char *message, size_t len)
{
	hearth.host->log(hearth.exchange, level, message, len);
}

/* {{{ What PHP asks of its SAPI */

/*
 * The client is gone. Like main/main.c php_handle_aborted_connection(), except
 * that a resident script is left by unwinding and not by longjmp(), so that
 * the application's own frames are cleaned up and can serve the next request.
 */
void hearth_client_gone(void)
{
	if (!hearth.resident || hearth.phase != PHASE_REQUEST || !EG(current_execute_data)) {
		php_handle_aborted_connection();
		return;
	}
	PG(connection_status) |= PHP_CONNECTION_ABORTED;
	php_output_set_status(PHP_OUTPUT_DISABLED);
	if (!PG(ignore_user_abort) && !EG(exception)) {
		zend_throw_unwind_exit();
	}
}

static size_t hearth_write(const char *bytes, size_t len)
{
	size_t written;

	if (hearth.phase != PHASE_REQUEST) {
		/* Nobody asked for it: a worker script echoes outside of its handler. One that warms is followed by one that says the same. */
		if (!hearth.warming) {
			hearth_log(LOG_NOTICE, bytes, len);
		}
		return len;
	}
	if (hearth.finished) {
		/* php-fpm drops it too, until 8 KiB or flush(); then it takes the client for gone. Here it is only dropped. */
		return len;
	}
	written = hearth.host->write(hearth.exchange, bytes, len);
	if (written < len) {
		hearth_client_gone();
	}
	return written;
}

static void hearth_flush(void *server_context)
{
	if (hearth.phase != PHASE_REQUEST || hearth.finished) {
		return;
	}
	if (hearth.host->aborted(hearth.exchange) || (hearth.headers_sent && !hearth.host->flush(hearth.exchange))) {
		hearth_client_gone();
	}
}

static size_t hearth_read_post(char *buffer, size_t capacity)
{
	size_t done = 0;

	if (hearth.phase != PHASE_REQUEST) {
		return 0;
	}
	while (done < capacity) {
		size_t got = hearth.host->read_body(hearth.exchange, buffer + done, capacity - done);

		if (got == 0) {
			break;
		}
		done += got;
	}
	return done;
}

static int hearth_activate(void)
{
	if (hearth.phase == PHASE_REQUEST && !hearth.resident) {
		hearth_user_ini_activate();
	}
	return SUCCESS;
}

/* As under php-fpm, the response is complete before PHP tidies up, and before a worker script goes on. */
static int hearth_deactivate(void)
{
	if (hearth.phase == PHASE_REQUEST && SG(sapi_started) && !hearth.finished) {
		hearth.finished = true;
		hearth.host->finish(hearth.exchange);
	}
	return SUCCESS;
}

static void hearth_log_message(const char *message, int level)
{
	hearth_log(level, message, strlen(message));
}

/* Whether PHP shows or logs the error: as main/main.c php_error_cb() (8.2). */
static bool is_reported(int type)
{
	return ((EG(error_reporting) & type & E_ALL) || (type & E_CORE)) && (PG(log_errors) || PG(display_errors));
}

/* In the words of php_error_cb(). */
static void log_fatal(zend_string *file, uint32_t line, zend_string *message)
{
	char *text;
	size_t len = spprintf(&text, 0, "PHP Fatal error:  %s in %s on line %" PRIu32, ZSTR_VAL(message),
		file ? ZSTR_VAL(file) : "Unknown", line);

	hearth_log(LOG_ERR, text, len);
	efree(text);
}

/* Notes what ends a script, before PHP handles the error. */
static void hearth_error_cb(int type, zend_string *file, const uint32_t line, zend_string *message)
{
	if (type & FATAL_ERRORS) {
		if (type & E_DONT_BAIL) {
			hearth.uncaught = true;
		} else {
			hearth.fatal = true;
		}
		if ((hearth.phase == PHASE_BOOT || hearth.warming) && !PG(log_errors)) {
			hearth_log(LOG_ERR, ZSTR_VAL(message), ZSTR_LEN(message));
		} else if (!is_reported(type)) {
			log_fatal(file, line, message);
		}
		/* PHP itself leaves 200 where it shows the error. */
		if (hearth.errors_are_500 && !SG(headers_sent) && SG(sapi_headers).http_response_code == 200) {
			SG(sapi_headers).http_response_code = 500;
		}
	}
	next_error_cb(type, file, line, message);
}

static int hearth_startup(sapi_module_struct *module)
{
	return php_module_startup(module, &hearth_module_entry);
}

static sapi_module_struct hearth_module = {
	"hearth",
	"Hearth",
	hearth_startup,
	php_module_shutdown_wrapper,
	hearth_activate,
	hearth_deactivate,
	hearth_write,
	hearth_flush,
	NULL,                       /* get_stat */
	hearth_getenv,
	php_error,
	NULL,                       /* header_handler */
	hearth_send_headers,
	NULL,                       /* send_header */
	hearth_read_post,
	hearth_read_cookies,
	hearth_register_variables,
	hearth_log_message,
	NULL,                       /* get_request_time */
	NULL,                       /* terminate_process */
	STANDARD_SAPI_MODULE_PROPERTIES
};
/* }}} */

/* {{{ The coroutine */

/* Of the host, for the sanitizer. */
static const void *host_stack;
static size_t host_stack_size;

void hearth_yield(sapi_state state)
{
	void *fakes = NULL;

	hearth_end_child();
	hearth.state = state;
	LEAVING_FOR(&fakes, host_stack, host_stack_size);
	hearth_switch(&hearth.php_sp, hearth.host_sp);
	BACK_FROM(fakes, &host_stack, &host_stack_size);
}

void hearth_stack_main(void)
{
	BACK_FROM(NULL, &host_stack, &host_stack_size);
	for (;;) {
		hearth_task task = hearth.task;

		hearth.task = TASK_NONE;
		if (task == TASK_WORKER) {
			hearth_run_worker();
		} else if (task == TASK_CLASSIC) {
			hearth_run_classic();
		}
		hearth_yield(SAPI_ENDED);
	}
}

static sapi_state resume(void)
{
	void *fakes = NULL;

	LEAVING_FOR(&fakes, hearth.php_stack, PHP_STACK_SIZE);
	hearth_switch(&hearth.host_sp, hearth.php_sp);
	BACK_FROM(fakes, NULL, NULL);
	return hearth.state;
}

/* A guard on both sides: an overflow is a fault here, not a write into a neighbour. */
static bool make_stack(void)
{
	size_t size = PHP_STACK_SIZE + 2 * PHP_STACK_GUARD;
	char *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	void **top;

	if (base == MAP_FAILED) {
		return false;
	}
	if (mprotect(base + PHP_STACK_GUARD, PHP_STACK_SIZE, PROT_READ | PROT_WRITE) != 0) {
		munmap(base, size);
		return false;
	}
	hearth.php_stack = base + PHP_STACK_GUARD;
	/* What hearth_switch() finds: control words, six registers, the address to return to. */
	top = (void **) (base + PHP_STACK_GUARD + PHP_STACK_SIZE) - 3;
	*top = (void *) hearth_stack_start;
	((uint32_t *) (top - 7))[0] = 0x1f80;   /* mxcsr: all exceptions masked */
	((uint32_t *) (top - 7))[1] = 0x037f;   /* x87: the same, 64-bit mantissa */
	hearth.php_sp = top - 7;
	return true;
}

/* }}} */

/* {{{ The contract of sapi.h */

bool sapi_boot(const sapi_host *host, const char *ini, const char *ini_path)
{
	hearth.host = host;
	if (!make_stack()) {
		return false;
	}
	signal(SIGPIPE, SIG_IGN);
	hearth_child_startup();
	zend_signal_startup();
	sapi_startup(&hearth_module);
	/*
	 * sapi_startup() forgets the entries and copies the struct; php_module_startup() copies it again before it reads
	 * the ini files. So both get each of these.
	 */
	sapi_module.ini_entries = hearth_module.ini_entries = (char *) ini;
	sapi_module.php_ini_path_override = hearth_module.php_ini_path_override = (char *) ini_path;
	sapi_module.php_ini_ignore_cwd = hearth_module.php_ini_ignore_cwd = 1;
	/* PHP_BINARY; as in main/main.c php_binary_init() (8.2), which follows the link. */
	sapi_module.executable_location = hearth_module.executable_location = "/proc/self/exe";
	if (hearth_module.startup(&hearth_module) == FAILURE) {
		return false;
	}
	/* See functions.c: another name was needed while OPcache started. */
	sapi_module.name = hearth_module.name;
	next_error_cb = zend_error_cb;
	zend_error_cb = hearth_error_cb;
	hearth_thrown_startup();
	hearth_opcache_startup();
	return true;
}

/* As sapi/fpm/fpm/fpm_php.c does for php_admin_value (8.2); the value is that of the ini entries given to sapi_boot(). */
bool sapi_lock_setting(const char *name)
{
	zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), name, strlen(name));

	if (entry) {
		entry->modifiable = ZEND_INI_SYSTEM;
	}
	return entry != NULL;
}

bool sapi_has_setting(const char *name)
{
	return zend_hash_str_exists(EG(ini_directives), name, strlen(name));
}

/* As sapi/cli/php_cli.c does for "php -l" (8.2). On the host's own stack, which is the one that PHP knows before a script runs. */
bool sapi_compiles(const char *script)
{
	bool compiles = false;

	/* Whatever the pool's settings: errors are for the log. */
	PG(display_errors) = 0;
	PG(html_errors) = 0;
	PG(log_errors) = 1;
	hearth.phase = PHASE_BOOT;
	hearth_fill_request_info();
	SG(request_info).no_headers = 1;
	if (php_request_startup() == SUCCESS) {
		zend_file_handle file;

		zend_stream_init_filename(&file, script);
		compiles = php_lint_script(&file) == SUCCESS;
		zend_destroy_file_handle(&file);
	}
	php_request_shutdown(NULL);
	hearth_forget_request_info();
	hearth.phase = PHASE_IDLE;
	return compiles;
}

/* As ext/standard/info.c php_ini_loaded_file() and main/php_ini.c php_ini_scanned_files() (8.2). */
const char *sapi_ini_loaded(void)
{
	return php_ini_opened_path;
}

const char *sapi_ini_scanned(void)
{
	return php_ini_scanned_files;
}

const char *sapi_ini_value(const char *name)
{
	return zend_ini_string_ex(name, strlen(name), 1, NULL);
}

void sapi_errors_are_500(void)
{
	hearth.errors_are_500 = true;
}

void sapi_stay_in_directory(void)
{
	SG(options) |= SAPI_OPTION_NO_CHDIR;
}

sapi_state sapi_start(const char *script)
{
	if (hearth.running) {
		return SAPI_ENDED;
	}
	hearth.task = TASK_WORKER;
	hearth.script = script;
	return resume();
}

sapi_state sapi_serve(void *exchange, const sapi_request *request)
{
	if (!hearth.running) {
		return SAPI_ENDED;
	}
	hearth.exchange = exchange;
	hearth.request = request;
	if (hearth.isolated) {
		hearth_watch_request();
	}
	resume();
	hearth.exchange = NULL;
	hearth.request = NULL;
	return hearth.state;
}

bool sapi_once(void)
{
	return hearth.once;
}

sapi_state sapi_leave(void)
{
	hearth.leaving = true;
	return sapi_serve(NULL, NULL);
}

void sapi_set_host(const sapi_host *host)
{
	hearth.host = host;
}

void hearth_do(hearth_task task)
{
	hearth.task = task;
	resume();
}

void hearth_perform(void)
{
	switch (hearth.task) {
		case TASK_LOOK:
			hearth_look_through(hearth.wanted);
			break;
		case TASK_REMEMBER:
			hearth_leaks_remember();
			break;
		case TASK_COMPARE:
			hearth_leaks_compare();
			break;
		case TASK_SEAL:
			hearth_seal();
			break;
		case TASK_NONE:
		case TASK_WORKER:
		case TASK_CLASSIC:
			break;
	}
	hearth.task = TASK_NONE;
}

void sapi_remember(void)
{
	hearth_do(TASK_REMEMBER);
}

void sapi_compare(void *exchange)
{
	hearth.exchange = exchange;
	hearth_do(TASK_COMPARE);
	hearth.exchange = NULL;
}

void sapi_seal(void)
{
	hearth_do(TASK_SEAL);
	sealed = hearth;
}

void sapi_rewind(void)
{
	hearth = sealed;
}

int sapi_run(void *exchange, const sapi_request *request)
{
	if (hearth.running) {
		return -1;
	}
	hearth.task = TASK_CLASSIC;
	hearth.exchange = exchange;
	hearth.request = request;
	resume();
	hearth.exchange = NULL;
	hearth.request = NULL;
	return hearth.exit_status;
}

int sapi_exit_status(void)
{
	return hearth.exit_status;
}

sapi_end sapi_ended(void)
{
	return hearth.ended;
}

/* What was looked up below /proc/self while the application booted is the zygote's. */
static void forget_paths_after_fork(void)
{
	realpath_cache_bucket **buckets = realpath_cache_get_buckets();
	zend_long count = realpath_cache_max_buckets();
	zend_long i;

	for (i = 0; i < count; i++) {
		realpath_cache_bucket *bucket = buckets[i];

		while (bucket) {
			realpath_cache_bucket *next = bucket->next;

			if (bucket->realpath_len > 6 && !memcmp(bucket->realpath, "/proc/", 6)) {
				realpath_cache_del(bucket->path, bucket->path_len);
			}
			bucket = next;
		}
	}
}

void sapi_after_fork(void)
{
	hearth_child_is_worker();
	forget_paths_after_fork();
	compat_child_init();
	hearth_reseed_after_fork();
}

const char *sapi_php_version(void)
{
	/* The library's own word, once it runs: it may be a newer patch release than the headers. */
	zend_module_entry *standard = hearth.host ? zend_hash_str_find_ptr(&module_registry, ZEND_STRL("standard")) : NULL;

	return standard ? standard->version : PHP_VERSION;
}

int64_t sapi_post_max_size(void)
{
	return SG(post_max_size);
}

void sapi_stop(void)
{
	zend_error_cb = next_error_cb;
	php_module_shutdown();
	sapi_shutdown();
	hearth_variables_shutdown();
	hearth_user_ini_shutdown();
}
/* }}} */
