/*
 * What happens in a request under isolation "request": PHP code ends it as
 * php-fpm would, but nothing is freed that the worker's rewind undoes anyway.
 * The list of what is closed is that of main/main.c php_request_shutdown();
 * what belongs to the boot (its connections, its files) is not closed, since
 * the next request starts with it.
 *
 * Runs in: worker. Called by: request.c.
 */
#include "context.h"

#include <strings.h>

#include <Zend/zend_exceptions.h>
#include <Zend/zend_list.h>
#include <Zend/zend_observer.h>
#include <ext/standard/basic_functions.h>

/*
 * Modules whose RSHUTDOWN only frees memory or resets their own variables. It is left out, since the rewind does that.
 * A module that is not named here may reach outside (a session is written, a profile is closed, …): its RSHUTDOWN runs.
 */
static const char *const memory_only[] = {
	"bcmath", "calendar", "core", "ctype", "curl", "date", "dom", "exif", "ffi", "fileinfo", "filter", "gd", "gettext",
	"hash", "hearth", "iconv", "intl", "json", "libxml", "mbstring", "openssl", "pcre", "pdo", "phar", "posix", "random",
	"readline", "reflection", "simplexml", "sodium", "spl", "standard", "tokenizer", "xml", "xmlreader", "xmlwriter",
	"xsl", "zip", "zlib",
};

void hearth_isolated_startup(void)
{
	zend_module_entry *module;
	size_t i;

	hearth.ending_modules = 0;
	ZEND_HASH_MAP_REVERSE_FOREACH_PTR(&module_registry, module) {
		bool skip = !module->request_shutdown_func;

		for (i = 0; i < sizeof(memory_only) / sizeof(memory_only[0]) && !skip; i++) {
			skip = strcasecmp(module->name, memory_only[i]) == 0;
		}
		if (skip) {
			continue;
		}
		if (hearth.ending_modules == HEARTH_ENDING_MODULES) {
			hearth_log(LOG_ERR, ZEND_STRL("more modules than can be ended with each request: load fewer, or set isolation to \"none\""));
			break;
		}
		hearth.ending_module[hearth.ending_modules++] = module;
	} ZEND_HASH_FOREACH_END();
}

static bool is_boot_object(const zend_object *object)
{
	return object->handle < hearth.boot_objects;
}

/*
 * As Zend/zend_execute_API.c zval_call_destructor() (8.2): a global that nobody else holds is destroyed before all
 * other objects. An object of the boot keeps what it holds, so only its destructor runs.
 */
static int end_global(zval *value)
{
	zval *target = Z_TYPE_P(value) == IS_INDIRECT ? Z_INDIRECT_P(value) : value;
	zend_object *object;

	if (Z_TYPE_P(target) != IS_OBJECT || Z_REFCOUNT_P(target) != 1) {
		return ZEND_HASH_APPLY_KEEP;
	}
	object = Z_OBJ_P(target);
	if (!is_boot_object(object)) {
		return ZEND_HASH_APPLY_REMOVE;
	}
	if (!(OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED)) {
		GC_ADD_FLAGS(object, IS_OBJ_DESTRUCTOR_CALLED);
		GC_ADDREF(object);
		object->handlers->dtor_obj(object);
		GC_DELREF(object);
	}
	return ZEND_HASH_APPLY_KEEP;
}

/* As Zend/zend_execute_API.c shutdown_destructors() (8.2). */
static void call_destructors(void)
{
	zend_try {
		uint32_t symbols;

		do {
			symbols = zend_hash_num_elements(&EG(symbol_table));
			zend_hash_reverse_apply(&EG(symbol_table), (apply_func_t) end_global);
		} while (symbols != zend_hash_num_elements(&EG(symbol_table)));
		zend_objects_store_call_destructors(&EG(objects_store));
	} zend_catch {
		zend_objects_store_mark_destructed(&EG(objects_store));
	} zend_end_try();
}

static void end_modules(void)
{
	volatile size_t i;

	for (i = 0; i < hearth.ending_modules; i++) {
		zend_try {
			zend_module_entry *module = hearth.ending_module[i];

			module->request_shutdown_func(module->type, module->module_number);
		} zend_end_try();
	}
}

/* Objects that hold something outside of PHP's memory: PDO, curl, a generator's `finally`. */
static void free_objects(void)
{
	uint32_t i;

	for (i = hearth.boot_objects; i < EG(objects_store).top; i++) {
		zend_object *object = EG(objects_store).object_buckets[i];

		if (IS_OBJ_VALID(object) && !(OBJ_FLAGS(object) & IS_OBJ_FREE_CALLED)
				&& object->handlers->free_obj != zend_object_std_dtor) {
			GC_ADD_FLAGS(object, IS_OBJ_FREE_CALLED);
			GC_ADDREF(object);
			object->handlers->free_obj(object);
		}
	}
}

/* The last one opened is closed first, as in Zend/zend_list.c zend_close_rsrc_list() (8.2). */
static void close_resources(void)
{
	zend_resource *resource;

	ZEND_HASH_REVERSE_FOREACH_PTR(&EG(regular_list), resource) {
		if (resource->handle < hearth.boot_resources) {
			break;
		}
		if (resource->type >= 0) {
			zend_list_close(resource);
		}
	} ZEND_HASH_FOREACH_END();
}

/* Not part of the context, so it outlives a rewind: once a worker is enough. */
static bool persistent_was_said;

/* A persistent connection cannot outlive the memory that knows it. It is closed, so that its server hears of it. */
static void close_persistent(void)
{
	while (zend_hash_num_elements(&EG(persistent_list)) > hearth.boot_persistent) {
		HashPosition last;
		zend_string *key;
		zend_ulong index;

		if (!persistent_was_said) {
			persistent_was_said = true;
			hearth_log(LOG_NOTICE, ZEND_STRL("a persistent connection was opened: it is closed with the request that opened it, as every connection is under isolation = \"request\""));
		}
		zend_hash_internal_pointer_end_ex(&EG(persistent_list), &last);
		if (zend_hash_get_current_key_ex(&EG(persistent_list), &key, &index, &last) == HASH_KEY_IS_STRING) {
			zend_hash_del(&EG(persistent_list), key);
		} else {
			zend_hash_index_del(&EG(persistent_list), index);
		}
	}
}

/* What the list consists of; a step that fails does not keep the next from running. */
static void each_step(void)
{
	if (ZEND_OBSERVER_ENABLED) {
		zend_observer_fcall_end_all();
	}
	/* A memory limit hit before or in a step must not silence what follows. */
	compat_clear_delayed_oom();
	php_call_shutdown_functions();
	compat_clear_delayed_oom();
	call_destructors();
	compat_clear_delayed_oom();
	zend_try {
		php_output_end_all();
	} zend_end_try();
	zend_try {
		zend_unset_timeout();
	} zend_end_try();
	end_modules();
	zend_try {
		php_output_deactivate();
	} zend_end_try();
	zend_try {
		close_resources();
	} zend_end_try();
	zend_try {
		free_objects();
	} zend_end_try();
	zend_try {
		close_persistent();
	} zend_end_try();
	zend_try {
		sapi_deactivate();
	} zend_end_try();
}

void hearth_end_isolated(void)
{
	hearth.handled = false;
	hearth_enter_shutdown();
	each_step();
	/* Nobody comes back from here: the process is put back, or ends. */
	hearth_yield(SAPI_WAITING);
	zend_bailout();
}

void hearth_serve_isolated(zend_fcall_info *fci, zend_fcall_info_cache *fcc)
{
	/* exit() and what nobody caught end a script where they are. */
	hearth.handled = hearth_call_handler(fci, fcc) && !EG(exception);
	if (!hearth.handled) {
		hearth_end_isolated();
	}
	/* The handler is the boot's, with all that only it holds: it does not end with this call. */
	Z_TRY_ADDREF(fci->function_name);
}
