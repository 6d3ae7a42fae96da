/*
 * What the C files of the SAPI share: the one context, and the calls between
 * them. Nobody outside of this folder includes it.
 *
 * Runs in: zygote | worker. One thread.
 */
#ifndef HEARTH_CONTEXT_H
#define HEARTH_CONTEXT_H

#include "compat.h"
#include "sapi.h"

#include <signal.h>

#include <Zend/zend_API.h>
#include <main/SAPI.h>
#include <main/php.h>
#include <main/php_globals.h>
#include <main/php_main.h>
#include <main/php_output.h>
#include <main/php_variables.h>

/*
 * The script's stack. PHP itself needs little, its extensions (PCRE without
 * JIT, recursive C callbacks) may need as much as the 8 MiB of a main thread.
 * Untouched pages cost nothing.
 */
#define PHP_STACK_SIZE ((size_t) 16 << 20)

#define HEARTH_FILTER_FUNCTIONS 3
#define HEARTH_ENDING_MODULES 64

/* Where the PHP side stands. */
typedef enum hearth_phase {
	PHASE_IDLE = 0,   /* no script */
	PHASE_BOOT,       /* a worker script before its first hearth_handle_request() */
	PHASE_BETWEEN,    /* a worker script between two requests, or waiting */
	PHASE_REQUEST,    /* a request, classic or resident */
	PHASE_DRAIN       /* hearth_handle_request() has returned false */
} hearth_phase;

/* What exit() in a handler ends, and an exception that it does not catch. */
typedef enum hearth_exit_ends {
	EXIT_ENDS_REQUEST = 0,
	EXIT_ENDS_SCRIPT
} hearth_exit_ends;

/* What becomes of a wait that a signal has interrupted. */
typedef enum hearth_wait {
	WAIT_INTERRUPTED = 0,   /* as ever */
	WAIT_GOES_ON,           /* only the server has looked */
	WAIT_ENDS               /* the request is to end */
} hearth_wait;

/* What the coroutine is to do when the host switches to it anew. */
typedef enum hearth_task {
	TASK_NONE = 0,
	TASK_WORKER,
	TASK_CLASSIC,
	TASK_LOOK,
	TASK_REMEMBER,
	TASK_COMPARE,
	TASK_SEAL
} hearth_task;

/* What sapi_look_through() was called with. */
typedef struct sapi_search {
	void       *ctx;
	sapi_found  found;
} sapi_search;

/* See carry.c. */
typedef struct hearth_carry hearth_carry;

/*
 * Everything of ours that lives longer than a call. It sits in the .bss of the
 * executable and owns no memory except the coroutine's stack and the tables
 * made at boot.
 */
typedef struct hearth_context {
	const sapi_host    *host;
	/* The request being served, and the host's word for it; NULL outside of a request. */
	const sapi_request *request;
	void               *exchange;
	hearth_phase        phase;
	bool                resident;         /* the script is a worker script */
	bool                finished;         /* the response is complete, the script goes on */
	bool                handled;          /* the handler is over, and the script goes on in the request (isolated) */
	bool                once;             /* the script waits in hearth_request(), or is the request from there on; see once.c */
	bool                headers_sent;     /* the final head went to the host */
	bool                fatal;            /* an error that ends the script was raised */
	bool                uncaught;         /* an exception reached the top */
	bool                running;          /* a worker script is under way */
	sapi_end            ended;
	unsigned            drain_calls;
	/* Coroutine. */
	void               *php_stack;        /* lowest usable address */
	void               *php_sp;
	void               *host_sp;
	hearth_task         task;
	sapi_state          state;
	const char         *script;
	int                 exit_status;
	bool                errors_are_500;   /* see sapi.h */
	/* What the boot left, to be kept through the requests. */
	HashTable          *boot_shutdown_functions;
	size_t              boot_ticks;
	bool                boot_ignore_user_abort;
	bool                register_argc_argv;
	bool                boot_references;  /* superglobals are references */
	const zend_array   *boot_argv;        /* $argv as PHP has made it */
	HashTable          *boot_added;       /* to $_SERVER, see variables.c; NULL: nothing */
	php_stream         *boot_input;       /* body of php://input, if that was opened; only with `once` */
	/* The warm-up, see warm.c. */
	bool                warming;          /* the script's requests only warm */
	bool                warmed;           /* they are over; the script that comes next serves */
	bool                leaving;          /* the pending hearth_handle_request() ends the script */
	hearth_carry       *carry;            /* what is carried over, in process memory */
	zend_long           opcache_restarts;
	sapi_warmth         warmth;
	const sapi_search  *wanted;           /* by the task TASK_LOOK */
	/* The image, see image.c. What is numbered from these on belongs to a request. */
	bool                isolated;
	bool                sealed_heap;
	uint32_t            boot_objects;
	zend_long           boot_resources;
	uint32_t            boot_persistent;
	size_t              ending_modules;
	zend_module_entry  *ending_module[HEARTH_ENDING_MODULES];
	/* Made once, in process memory. */
	HashTable           names;            /* CGI name => interned string */
	HashTable           user_ini;         /* folder => its settings, see user_ini.c */
	zend_array         *environment;      /* environment at boot, as $_SERVER shows it */
	void              (*import_environment)(zval *vars);
	/* The search for leaks, see leaks.c */
	struct hearth_leaks *leaks;           /* NULL before the first look */
	sapi_leaks          leaks_chosen;     /* what the host wants to know of the next request */
	/* ext/filter, see filter.c */
	unsigned int      (*filter)(int arg, const char *var, char **val, size_t val_len, size_t *new_val_len);
	zend_ini_entry     *filter_default;
	bool                filter_fed;       /* it has seen this request's parameters */
	struct {
		const zend_function *function;
		zif_handler          handler;
	}                   filter_functions[HEARTH_FILTER_FUNCTIONS];
} hearth_context;

extern hearth_context hearth __attribute__((visibility("hidden")));

#pragma GCC visibility push(hidden)

/* sapi.c */
/* Gives the host its turn; returns when the host switches back. */
void hearth_yield(sapi_state state);
/* Has the coroutine, which waits for a request, do something else meanwhile. */
void hearth_do(hearth_task task);
/* In the coroutine: does that. */
void hearth_perform(void);
void hearth_log(int level, const char *message, size_t len);
/* Ends the script, unless it ignores that; may longjmp(). */
void hearth_client_gone(void);

/* headers.c */
int hearth_send_headers(sapi_headers_struct *headers);
/* An interim response of the headers so far. Ends the script if the client is gone. */
void hearth_send_interim(int status);

/* request.c */
/* Runs hearth.script as a worker script, to its very end. */
void hearth_run_worker(void);
/* Waits for a request and has `fci` handle it; false once there are no more. */
bool hearth_next_request(zend_fcall_info *fci, zend_fcall_info_cache *fcc, hearth_exit_ends exit_ends);

/* Ends the boot, as far as PHP runs it as a request of its own. */
void hearth_end_boot(void);
/* Gives the host its turn; false: there are no more requests. */
bool hearth_wait_for_request(void);
/* What the script still does is no request: its output is logged, its headers go nowhere. */
void hearth_begin_drain(void);
/* May bail out. */
void hearth_begin_request(void);
/* Begins the request and has `fci` handle it. False: an error was fatal, or a limit was hit, and PHP has bailed out. */
bool hearth_call_handler(zend_fcall_info *fci, zend_fcall_info_cache *fcc);
/* The first step of each request's end: from here on nothing is left to a caller, an exception neither. */
void hearth_enter_shutdown(void);

/* input.c */
void hearth_close_input(void);
/* At the end of the boot, instead: streams on it stay open. */
void hearth_keep_input(void);
/* Lets them read the body of the request that begins. */
void hearth_give_input(void);

/* once.c */
/* hearth_request(): throws, returns into a request, or ends the script. */
void hearth_request_of_script(void);
/* Notes where a boot prints and sets headers. */
void hearth_watch_boot(bool on);

/* front.c */
/* Before a script boots: it may wait for its request as a front controller that knows nothing of Hearth. */
void hearth_keep_front_controller(void);
/* It waits, in the factory or in a call of its own, which may throw: classes that are loaded from here on are like any others. */
void hearth_front_controller_waits(void);
/* So are they once it is over, which it may be without having waited. */
void hearth_front_controller_ends(void);
/* It is no such front controller. May throw. */
void hearth_forget_front_controller(void);
/* Whether the function is part of the way from a front controller to hearth_request(). */
bool hearth_is_front_of_request(const zend_function *function);

/* reads.c */
void hearth_reads_startup(void);
/* Logs the reads of request variables that stand above hearth_request() in the scripts that have led there. */
void hearth_tell_reads_above(void);

/* isolated.c */
/* Finds the modules that have something to do at the end of a request. */
void hearth_isolated_startup(void);
/*
 * Has `fci` handle hearth.request. Returns if the script shall go on behind the call, as it would under php-fpm; the
 * request ends when it asks for the next one, or ends itself.
 */
void hearth_serve_isolated(zend_fcall_info *fci, zend_fcall_info_cache *fcc);
/* Ends the request as php-fpm would, to the last step that can be seen from outside, and gives the host its turn. */
ZEND_NORETURN void hearth_end_isolated(void);

/* child.c */
void hearth_child_startup(void);
/* In a process that the host has forked to serve. */
void hearth_child_is_worker(void);
/* A request has started a process. */
void hearth_note_child(void);
/* Ends a process that a script has forked; nothing in any other. */
void hearth_end_child(void);

/* suspects.c */
void hearth_look_through(const sapi_search *wanted);

/* image.c */
/* Makes what has been booted the state that every request starts from. */
void hearth_seal(void);
/* Gives the request random numbers of its own. */
void hearth_reseed(void);
/* The same for a new worker, which keeps what its requests leave unless there is an image. */
void hearth_reseed_after_fork(void);

/* ask.c */
void hearth_ask_startup(void);

/* signals.c */
/* The limit that the request has passed; set by a signal, until the script has its error. 0: none. */
extern volatile uint64_t hearth_limit_ms;
void hearth_own_signals(int look, int end, void (*handler)(int, siginfo_t *, void *));
/* Whether a signal belongs to the host. */
bool hearth_is_ours(int number);
bool hearth_is_our_handler(const struct sigaction *action);
void hearth_leave_ours_out(sigset_t *set);
/* To be told in the handler: a wait that it has interrupted goes on, unless the request is to end. */
void hearth_has_looked(void);
/* Around a wait that signals interrupt. */
void hearth_wait_begins(void);
hearth_wait hearth_wait_interrupted(void);

/* stack.c */
/*
 * For a signal handler: where PHP stands. The registers are those of the interrupted code in which the engine keeps
 * frame and instruction, if they hold them. Returns the bytes written.
 */
size_t hearth_write_stack(char *text, size_t capacity, const void *frame_register, const void *op_register);

/* opcache.c */
void hearth_opcache_startup(void);

/* thrown.c */
void hearth_thrown_startup(void);
void hearth_thrown_forget(void);
/* For a worker script that has ended and does not say why. */
void hearth_thrown_report(void);

/* interpose.c */
void hearth_watch_request(void);

/* semaphores.c */
void hearth_forget_semaphores(void);
/* Whether the request has left one other than it was. */
bool hearth_holds_semaphores(void);

/* Points PHP at the request, and away from it again. */
void hearth_fill_request_info(void);
void hearth_forget_request_info(void);

/* session.c */
void hearth_begin_session(void);
void hearth_end_session(void);
/* Whether one is open that not PHP itself has started. */
bool hearth_script_has_session(void);
/* Calls a module's function for the begin or the end of a request, if there is such a module. */
void hearth_call_module(const char *name, size_t name_len, bool startup);

/* classic.c */
/* Runs hearth.request as php-fpm does. */
void hearth_run_classic(void);

/* variables.c */
void hearth_variables_startup(void);
void hearth_variables_shutdown(void);
void hearth_register_variables(zval *track_vars_array);
char *hearth_getenv(const char *name, size_t name_len);
char *hearth_read_cookies(void);
/* Value of a parameter of the request, or NULL. */
const sapi_str *hearth_param(const char *name, size_t name_len);
/* Whether only a request can have a variable of that name in $_SERVER. */
bool hearth_is_of_request(const zend_string *name);
/* At the end of the boot: $_SERVER of each request has what the boot has added to it. */
void hearth_keep_added(void);

/* Shows the request's parameters to sapi_module.input_filter. */
void hearth_feed_filter(void);

/* superglobals.c */
/* Fills $_GET, $_POST, … of a resident request. */
void hearth_import_superglobals(void);
/* At the end of the boot: superglobals of which it has made references stay these. */
void hearth_note_references(void);

/* filter.c */
void hearth_filter_startup(void);
bool hearth_filter_is_plain(void);

/* leaks.c */
/* Around a request that the host has chosen: looks, and tells the host what is left. */
void hearth_leaks_before(void);
void hearth_leaks_after(void);
/* Around several requests. */
void hearth_leaks_remember(void);
void hearth_leaks_compare(void);

/* user_ini.c */
void hearth_user_ini_startup(void);
void hearth_user_ini_shutdown(void);
void hearth_user_ini_activate(void);

/* warm.c: nothing, unless a script warms or was warmed. */
void hearth_warm_before_shutdown(void);
void hearth_warm_after_shutdown(void);
/* May run the application's autoloaders, and bail out. */
void hearth_warm_before_first_request(void);

/* carry.c */
/* Copies the names and caches of the request that is about to end; adds to `carry` if there is one. */
hearth_carry *hearth_carry_capture(hearth_carry *carry);
/* Loads the classes; then puts the caches of what is as it was. Both count. */
void hearth_carry_load(hearth_carry *carry, sapi_warmth *warmth);
void hearth_carry_put(hearth_carry *carry, sapi_warmth *warmth);
void hearth_carry_forget(hearth_carry *carry);

/* functions.c */
extern zend_module_entry hearth_module_entry;

#pragma GCC visibility pop

#endif
