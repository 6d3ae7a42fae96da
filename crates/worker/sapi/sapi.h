/*
 * The contract between the host (Rust) and PHP (C). Everything that names the
 * Zend engine is on the C side of this header; the Rust side sees only what
 * is declared here.
 *
 * Runs in: zygote | worker. One thread.
 *
 * Stacks: the host runs on the process's main stack; PHP runs on a stack of
 * its own. sapi_start(), sapi_serve() and sapi_run() switch to the PHP stack
 * and return on the host's stack once the script asks for a request or ends.
 * The callbacks of sapi_host are called on the PHP stack.
 *
 * Laws: no longjmp crosses a Rust frame (each zend_try is in C; a callback
 * returns before C raises); Rust never unwinds into C; a pointer handed over
 * is valid until the call returns.
 */
#ifndef HEARTH_SAPI_H
#define HEARTH_SAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes with a length; not NUL-terminated unless said. */
typedef struct sapi_str {
	const char *bytes;
	size_t      len;
} sapi_str;

/* One CGI variable of a request, e.g. HTTP_HOST. Both strings are followed by a NUL. */
typedef struct sapi_param {
	sapi_str name;
	sapi_str value;
} sapi_param;

/*
 * One request. `params` are the CGI variables in the order in which php-fpm
 * shows them in $_SERVER. The named strings are views of the same bytes, so
 * that C never searches; an absent one has bytes == NULL.
 */
typedef struct sapi_request {
	uint64_t          id;               /* request id, as in the log */
	sapi_str          method;           /* REQUEST_METHOD */
	sapi_str          uri;              /* REQUEST_URI */
	sapi_str          query;            /* QUERY_STRING */
	sapi_str          content_type;     /* CONTENT_TYPE */
	sapi_str          cookies;          /* HTTP_COOKIE */
	sapi_str          authorization;    /* HTTP_AUTHORIZATION */
	sapi_str          script;           /* SCRIPT_FILENAME */
	int64_t           content_length;   /* bytes of the body; -1 unknown */
	unsigned          proto_num;        /* 1000 for HTTP/1.0, 1001 for 1.1, 2000 for 2 */
	const sapi_param *params;
	size_t            param_count;
} sapi_request;

/* Kinds of things that a request leaves behind. */
typedef enum sapi_leak_kind {
	SAPI_LEAK_MEMORY = 0,           /* `bytes`, 0 without values; once, and first */
	SAPI_LEAK_GLOBAL,
	SAPI_LEAK_STATIC,               /* property */
	SAPI_LEAK_FUNCTION_STATIC,
	SAPI_LEAK_PROPERTY,             /* of an object that was there before */
	SAPI_LEAK_OBJECTS,              /* of a class */
	SAPI_LEAK_SETTING,              /* of PHP */
	SAPI_LEAK_HANDLER,              /* of errors or exceptions */
	SAPI_LEAK_SHUTDOWN_FUNCTION,
	SAPI_LEAK_AUTOLOADER,
	SAPI_LEAK_CONSTANT,
	SAPI_LEAK_FUNCTION,
	SAPI_LEAK_CLASSES,
	SAPI_LEAK_RESOURCE,
	SAPI_LEAK_STREAM_WRAPPER,
	SAPI_LEAK_OUTPUT_BUFFER,
	SAPI_LEAK_ENVIRONMENT,
	SAPI_LEAK_LOCALE,
	SAPI_LEAK_TIMEZONE,
	SAPI_LEAK_ENCODING,
	SAPI_LEAK_DIRECTORY,
	SAPI_LEAK_UMASK,
	SAPI_LEAK_DESCRIPTOR
} sapi_leak_kind;

/* Something that a request left behind. UTF-8 where the application's names are. */
typedef struct sapi_leak {
	sapi_leak_kind kind;
	sapi_str       name;
	sapi_str       place;           /* "file:line" of what has that name, or empty */
	sapi_str       change;          /* types and sizes, no values */
	int64_t        bytes;
} sapi_leak;

/* What is to be found out about a request. */
typedef enum sapi_leaks {
	SAPI_LEAKS_NONE = 0,
	SAPI_LEAKS_PROCESS,             /* settings, handlers, resources, the process; for the first, in which values are made */
	SAPI_LEAKS_ALL
} sapi_leaks;

/* What the server's last signal is about. */
typedef struct sapi_asked {
	uint64_t request;           /* its id; 0: none */
	uint64_t limit_ms;          /* the limit that it has passed */
} sapi_asked;

/* `NO_STATUS` of the crate ipc. */
#define SAPI_NO_STATUS 0

/* What C asks of Rust. A callback must not call PHP and must not unwind. `ctx` is the one given to sapi_serve() or sapi_run(). */
typedef struct sapi_host {
	/* Appends to the response body. A short count: the client is gone. */
	size_t (*write)(void *ctx, const char *bytes, size_t len);
	/* Pushes what was written so far towards the client. False: the client is gone. */
	bool   (*flush)(void *ctx);
	/*
	 * Sends the response head, once, before the first body byte. `reason` is the text after the status code of a status line set by the script, or empty.
	 * `lines` are "Name: value" without CR or LF. Status 1xx is an interim response and may precede the final one.
	 * SAPI_NO_STATUS: the final status is one that no response can have, and `reason` is its digits.
	 */
	bool   (*send_headers)(void *ctx, int status, sapi_str reason, const sapi_str *lines, size_t count);
	/* Next bytes of the request body; 0 at its end. */
	size_t (*read_body)(void *ctx, char *buffer, size_t capacity);
	/*
	 * The response is complete; the script goes on (fastcgi_finish_request(), or a worker script after its handler) or PHP tidies up. Called once per request,
	 * except when PHP could not even start it.
	 */
	void   (*finish)(void *ctx);
	/* True once the client has gone (connection_aborted()). */
	bool   (*aborted)(void *ctx);
	/* What a request left behind that sapi_find_leaks() had chosen, until the sapi_serve() of that request returns; or what sapi_compare() found. */
	void   (*leak)(void *ctx, const sapi_leak *leak);
	/* A line for the log; `level` is a syslog priority, LOG_ERR == 3. `ctx` may be NULL (boot). */
	void   (*log)(void *ctx, int level, const char *message, size_t len);
	/* The application wants its code read anew (opcache_reset()). */
	void   (*reload)(void *ctx);
	/* These two are called in a signal handler: they must not allocate, lock, or look at an exchange. */
	void   (*asked)(sapi_asked *asked);
	/* Where PHP stands in a request, a line a frame; empty: in no code of the application. */
	void   (*stack)(uint64_t request, const char *text, size_t len);
} sapi_host;

/* Where the script stands when a call returns. */
typedef enum sapi_state {
	SAPI_WAITING = 0,   /* the script asks for a request */
	SAPI_ENDED   = 1    /* the script is over; the process cannot serve another request with it */
} sapi_state;

/* Why a request was the last one of a script, for the log. */
typedef enum sapi_end {
	SAPI_END_NONE      = 0,
	SAPI_END_RETURNED  = 1,   /* the script ran to its end */
	SAPI_END_EXIT      = 2,   /* exit() outside of the handler */
	SAPI_END_EXCEPTION = 3,   /* an uncaught exception outside of the handler */
	SAPI_END_FATAL     = 4    /* fatal error, memory limit, time limit */
} sapi_end;

/* A class in PHP that the host brings along. */
typedef struct sapi_source {
	const char *class_name;  /* in lower case */
	const char *name;        /* in the place of a file's */
	const char *code;        /* without <?php */
} sapi_source;

/* What of a warm-up came over to the script that serves. */
typedef struct sapi_warmth {
	const char *skipped;      /* why nothing did; NULL: what follows did */
	bool        failed;       /* the script that was to get it has ended over it; another may be started, and gets nothing */
	unsigned    classes;      /* loaded beyond those that the script's own boot loads */
	unsigned    missing;      /* not found by their names */
	unsigned    caches;       /* of functions, put back */
	unsigned    dropped;      /* of functions, left empty: they name what is missing or another now */
} sapi_warmth;

/* A piece of memory. */
typedef struct sapi_range {
	void  *start;
	size_t len;         /* bytes */
} sapi_range;

#define SAPI_MAPPINGS 1024

/* Bits of sapi_touched.what. */
#define SAPI_TOUCHED_MAPPINGS     0x001u   /* more mappings than could be noted */
#define SAPI_TOUCHED_DIRECTORY    0x002u
#define SAPI_TOUCHED_UMASK        0x004u
#define SAPI_TOUCHED_TIMERS       0x008u
#define SAPI_TOUCHED_SIGNALS      0x010u   /* handlers */
#define SAPI_TOUCHED_MASK         0x020u   /* of signals */
#define SAPI_TOUCHED_FDS          0x040u   /* of the boot */
#define SAPI_TOUCHED_THREADS      0x080u
#define SAPI_TOUCHED_UNREWINDABLE 0x100u   /* see sapi_touched.call */
#define SAPI_TOUCHED_CHILDREN     0x200u

/* What a request changed in its process, besides memory. */
typedef struct sapi_touched {
	unsigned    what;                       /* SAPI_TOUCHED_… */
	int         last_boot_fd;               /* set by the host: higher ones are the request's */
	const char *call;                       /* a libc function that cannot be undone */
	size_t      mapping_count;
	sapi_range  mappings[SAPI_MAPPINGS];    /* made by the request and still there */
} sapi_touched;

/* Kinds of things that are found in a booted application. */
typedef enum sapi_find_kind {
	SAPI_FIND_CONNECTION = 0,       /* may hold a connection to another process */
	SAPI_FIND_GENERATOR,            /* of random numbers, with its state in memory */
	SAPI_FIND_DESTRUCTOR            /* a class with a destructor */
} sapi_find_kind;

/* Something that is found in a booted application. */
typedef struct sapi_find {
	sapi_find_kind kind;
	sapi_str       what;            /* its class, or "a stream" */
	sapi_str       holder;          /* "App\Shop::$cart", "$cart", or empty */
	sapi_str       place;           /* "file:line" of the holder, its file, or empty */
	int            fd;              /* its descriptor, -1 unknown */
	size_t         count;           /* objects of the class, with a destructor; else 1 */
} sapi_find;

/* Must not call PHP and must not unwind. */
typedef void (*sapi_found)(void *ctx, const sapi_find *find);

/* What a booted application consists of. */
typedef struct sapi_contents {
	size_t classes;                 /* all of them */
	size_t user_classes;            /* those of the application and its libraries */
	size_t objects;
} sapi_contents;

/* Zygote, once. `ini` holds "name=value" lines that override the ini files; `ini_path` is a php.ini or a folder, NULL for PHP's default. */
bool       sapi_boot(const sapi_host *host, const char *ini, const char *ini_path);
/* Zygote, after sapi_boot(): neither scripts nor .user.ini files change the setting from here on. False: there is none of that name. */
bool       sapi_lock_setting(const char *name);
/* Zygote, after sapi_boot(): whether PHP and its extensions have a setting of that name. */
bool       sapi_has_setting(const char *name);
/* Zygote, after sapi_boot(): whether PHP can compile the script; what is wrong goes to the log. None of it runs. */
bool       sapi_compiles(const char *script);
/* After sapi_boot(): the php.ini that was read, and "file,\nfile" of folders; NULL: none. */
const char *sapi_ini_loaded(void);
const char *sapi_ini_scanned(void);
/* After sapi_boot(): the value of a setting before any script changed it; NULL: there is none of that name. */
const char *sapi_ini_value(const char *name);
/* After sapi_boot(): bytes of a body that PHP takes; 0 or less: any number. */
int64_t     sapi_post_max_size(void);
/* Zygote, after sapi_boot(): a response that a fatal error ends has status 500, also where PHP shows the error in it. */
void       sapi_errors_are_500(void);
/* Zygote, after sapi_boot(): logs each read of a request's variables while a script boots. Makes PHP slower. */
void       sapi_tell_reads(void);
/* Zygote, after sapi_boot(): scripts do not change to their own folder. */
void       sapi_stay_in_directory(void);
/*
 * Zygote, resident, before sapi_start(): scripts may wait for their request in HttpFoundation's
 * Request::createFromGlobals(), by the PHP that is given. It must stay where it is.
 */
void       sapi_keep_front_controllers(const sapi_source *sources, size_t count);
/* Zygote, resident: runs `script` up to its first hearth_handle_request(). */
sapi_state sapi_start(const char *script);
/* Whether the script that sapi_start() has run waits in hearth_request(), or has served a request so: it serves one, and ends with it. */
bool       sapi_once(void);
/* Whether it waits there as a front controller, by the PHP of sapi_keep_front_controllers(). */
bool       sapi_is_front_controller(void);
/* Worker, resident: one request, until the script asks for the next one or ends. With request == NULL the pending hearth_handle_request() returns false, so that the script can end. */
sapi_state sapi_serve(void *ctx, const sapi_request *request);
/* Zygote, resident: true before the scripts that warm, false before the one that serves. */
void       sapi_warm(bool on);
/* Zygote, resident: ends the waiting script as exit() there would, and its PHP request. sapi_start() may start another then. */
sapi_state sapi_leave(void);
/* What the script that serves got, once it waits. */
sapi_warmth sapi_warmed(void);
/* Whether hot code is compiled: then warming takes many requests. */
bool       sapi_jit(void);
/* Replaces the callbacks given to sapi_boot(). */
void       sapi_set_host(const sapi_host *host);
/* Worker, resident, where nothing is undone: the next sapi_serve() tells what its request leaves behind. */
void       sapi_find_leaks(sapi_leaks which);
/* Zygote, resident, while the script waits: remembers what there is, for the next sapi_compare(). */
void       sapi_remember(void);
/* Tells sapi_host.leak, with that `ctx`, what requests have left behind since sapi_remember(). */
void       sapi_compare(void *ctx);
/* Worker, classic: runs request->script from the top as php-fpm does; the exit status. */
int        sapi_run(void *ctx, const sapi_request *request);
/* Zygote, resident, after the last sapi_start() and before sapi_seal(): tells what is to be known before requests start from it. */
sapi_contents sapi_look_through(void *ctx, sapi_found found);
/*
 * Zygote, resident, after the last sapi_start(): from here on each request starts from what memory holds when this
 * returns, and sapi_serve() ends a request without tidying up behind it. What is put back is the host's business.
 */
void       sapi_seal(void);
/* Pieces of memory that hold nothing: free pages of the heap, and the unused part of the PHP stack. Returns how many are in `ranges`. */
size_t     sapi_free_memory(sapi_range *ranges, size_t capacity);
/* What the engine's internals did not let sapi_seal() do, for the log; NULL if nothing. */
const char *sapi_seal_problem(void);
/* Worker: the variables of the SAPI itself, which are in the executable's memory, as they were at sapi_seal(). */
void       sapi_rewind(void);
/* Worker: `ranges` is the memory of the image, sorted, and stays where it is. Calls that change it are watched from here on. */
void       sapi_watch(const sapi_range *ranges, size_t count);
/* Worker: what the last sapi_serve() touched. */
sapi_touched *sapi_take_touched(void);
/* Why the last sapi_start() or sapi_serve() returned SAPI_ENDED. */
sapi_end   sapi_ended(void);
/* The exit status with which the worker script has ended. */
int        sapi_exit_status(void);
/* Worker, once, first thing after the fork: reseeds, takes its own pid. Signal masks and handlers are the host's; PHP adds its own for SIGPROF and those of zend_signal. */
void       sapi_after_fork(void);
/* Worker, once: takes the signals by which the server asks where a request stands, and to end it. */
void       sapi_answer(int look, int end);
/* Worker: a child runs the request, and gets those signals; 0: no more. */
void       sapi_depute(int process);
/* "8.2.36", for the log and for `hearth check`. */
const char *sapi_php_version(void);
/* Zygote or worker, last. */
void       sapi_stop(void);

#endif
