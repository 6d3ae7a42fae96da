/*
 * What a request of a resident script leaves behind besides values: settings, handlers, declarations, resources, and
 * what belongs to the process. See leaks.c.
 *
 * Runs in: worker, zygote. Called by: leaks.c.
 */
#include "leaks.h"

#include <dirent.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <Zend/zend_constants.h>
#include <Zend/zend_list.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/file.h>
#include <main/php_streams.h>

/* Names of new constants, functions, … that are told one by one. */
#define NAMES 8

extern char **environ;

static uint64_t key_of(sapi_leak_kind kind, const char *name, size_t len)
{
	return leak_mix(leak_hash(name, len), kind);
}

/* A text of the process, which is no secret, so it is shown. */
static void see_text(leak_scan *scan, sapi_leak_kind kind, unsigned place, const char *name, const char *text)
{
	const char *before = scan->before ? scan->before->texts[place] : text;
	char change[2 * LEAK_TEXT + 8];

	snprintf(scan->now->texts[place], LEAK_TEXT, "%s", text);
	if (strcmp(before, scan->now->texts[place]) != 0 && before != text) {
		snprintf(change, sizeof(change), "%s → %s", before, scan->now->texts[place]);
		leak_tell(kind, name, NULL, 0, change);
	}
}

/* What a function without arguments of PHP's returns; false if there is no such function. */
static bool call(const char *name, size_t len, zval *result)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, len);

	ZVAL_UNDEF(result);
	if (!function || function->type != ZEND_INTERNAL_FUNCTION) {
		return false;
	}
	zend_call_known_function(function, NULL, NULL, result, 0, NULL, NULL);
	return Z_TYPE_P(result) != IS_UNDEF;
}

static void see_settings(leak_scan *scan)
{
	zend_ini_entry *entry;
	leak_owner owner = { SAPI_LEAK_SETTING, NULL, NULL, NULL, 0 };

	if (!EG(modified_ini_directives)) {
		return;
	}
	ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
		zval value, initial;

		ZVAL_NULL(&value);
		ZVAL_NULL(&initial);
		if (entry->value) {
			ZVAL_STR(&value, entry->value);
		}
		if (entry->orig_value) {
			ZVAL_STR(&initial, entry->orig_value);
		}
		owner.name = ZSTR_VAL(entry->name);
		owner.name_len = ZSTR_LEN(entry->name);
		leak_see(scan, &owner, leak_mix((uintptr_t) entry, SAPI_LEAK_SETTING), &value, &initial);
	} ZEND_HASH_FOREACH_END();
}

static void see_handler(leak_scan *scan, const char *name, zval *handler, zend_stack *earlier)
{
	leak_owner owner = { SAPI_LEAK_HANDLER, NULL, NULL, name, strlen(name) };
	char stack[LEAK_TEXT];
	zval nothing;

	ZVAL_NULL(&nothing);
	leak_see(scan, &owner, key_of(SAPI_LEAK_HANDLER, name, strlen(name)), handler, &nothing);
	snprintf(stack, sizeof(stack), "%ss that were set and not restored", name);
	leak_see_count(scan, SAPI_LEAK_HANDLER, stack, zend_stack_count(earlier));
}

static void see_handlers(leak_scan *scan)
{
	const HashTable *ending = BG(user_shutdown_function_names);
	zval autoloaders;

	see_handler(scan, "error handler", &EG(user_error_handler), &EG(user_error_handlers));
	see_handler(scan, "exception handler", &EG(user_exception_handler), &EG(user_exception_handlers));
	leak_see_count(scan, SAPI_LEAK_SHUTDOWN_FUNCTION, "shutdown functions", ending ? zend_hash_num_elements(ending) : 0);
	leak_see_count(scan, SAPI_LEAK_OUTPUT_BUFFER, "output buffers", php_output_get_level());
	if (call(ZEND_STRL("spl_autoload_functions"), &autoloaders)) {
		leak_see_count(scan, SAPI_LEAK_AUTOLOADER, "autoloaders",
			Z_TYPE(autoloaders) == IS_ARRAY ? zend_hash_num_elements(Z_ARRVAL(autoloaders)) : 0);
		zval_ptr_dtor(&autoloaders);
	}
}

/* Both tables only grow, at their end, so what is new needs no search. */
static void see_declarations(leak_scan *scan)
{
	uint32_t constants = EG(zend_constants)->nNumUsed, functions = CG(function_table)->nNumUsed;
	uint32_t i, told = 0;

	for (i = scan->before ? scan->before->constants : constants; i < constants && told < NAMES; i++) {
		const Bucket *bucket = &EG(zend_constants)->arData[i];

		if (Z_TYPE(bucket->val) != IS_UNDEF && bucket->key) {
			leak_tell(SAPI_LEAK_CONSTANT, ZSTR_VAL(bucket->key), NULL, 0, "defined");
			told++;
		}
	}
	told = 0;
	for (i = scan->before ? scan->before->functions : functions; i < functions && told < NAMES; i++) {
		const Bucket *bucket = &CG(function_table)->arData[i];
		const zend_function *function = Z_PTR(bucket->val);

		if (Z_TYPE(bucket->val) != IS_UNDEF && function->type == ZEND_USER_FUNCTION && function->common.function_name) {
			leak_tell(SAPI_LEAK_FUNCTION, ZSTR_VAL(function->common.function_name), function->op_array.filename,
				function->op_array.line_start, "declared");
			told++;
		}
	}
	scan->now->constants = constants;
	scan->now->functions = functions;
	leak_see_count(scan, SAPI_LEAK_CLASSES, "classes", zend_hash_num_elements(CG(class_table)));
}

static void tell_resource(zend_resource *resource, const char *type)
{
	char name[LEAK_TEXT];

	snprintf(name, sizeof(name), "%s", type);
	if (resource->type == php_file_le_stream() || resource->type == php_file_le_pstream()) {
		const php_stream *stream = resource->ptr;

		snprintf(name, sizeof(name), "%s %s", stream->ops->label, stream->orig_path ? stream->orig_path : "");
	}
	leak_tell(SAPI_LEAK_RESOURCE, name, NULL, 0, "left open");
}

static void see_resources(leak_scan *scan)
{
	zend_resource *resource;
	zend_string *name;

	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		const char *type = zend_rsrc_list_get_rsrc_type(resource);

		/* The default context is made once, by whoever comes first; a factory belongs to a wrapper. */
		if (type && resource->type != php_le_stream_context() && strcmp(type, "stream factory") != 0
				&& leak_is_new(scan, leak_mix((uint64_t) resource->handle, SAPI_LEAK_RESOURCE))) {
			tell_resource(resource, type);
		}
	} ZEND_HASH_FOREACH_END();
	leak_see_count(scan, SAPI_LEAK_RESOURCE, "persistent resources", zend_hash_num_elements(&EG(persistent_list)));
	ZEND_HASH_FOREACH_STR_KEY(php_stream_get_url_stream_wrappers_hash(), name) {
		if (name && leak_is_new(scan, key_of(SAPI_LEAK_STREAM_WRAPPER, ZSTR_VAL(name), ZSTR_LEN(name)))) {
			leak_tell(SAPI_LEAK_STREAM_WRAPPER, ZSTR_VAL(name), NULL, 0, "registered");
		}
	} ZEND_HASH_FOREACH_END();
}

static void see_environment(leak_scan *scan)
{
	char **entry;
	zval nothing;

	ZVAL_NULL(&nothing);
	for (entry = environ; entry && *entry; entry++) {
		const char *end = strchr(*entry, '=');
		leak_owner owner = { SAPI_LEAK_ENVIRONMENT, NULL, NULL, *entry, 0 };
		zval value;

		if (end) {
			owner.name_len = end - *entry;
			ZVAL_LONG(&value, (zend_long) leak_hash(end, strlen(end)));
			leak_see(scan, &owner, key_of(SAPI_LEAK_ENVIRONMENT, *entry, owner.name_len), &value, &nothing);
		}
	}
}

static void see_called_text(leak_scan *scan, sapi_leak_kind kind, unsigned place, const char *name, const char *function)
{
	zval text;

	if (call(function, strlen(function), &text)) {
		if (Z_TYPE(text) == IS_STRING) {
			see_text(scan, kind, place, name, Z_STRVAL(text));
		}
		zval_ptr_dtor(&text);
	}
}

static zend_long count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	zend_long count = 0;

	if (!folder) {
		return 0;
	}
	while (readdir(folder)) {
		count++;
	}
	closedir(folder);
	return count;
}

static void see_process_state(leak_scan *scan)
{
	leak_owner owner = { SAPI_LEAK_UMASK, NULL, NULL, ZEND_STRL("umask") };
	const char *locale = setlocale(LC_ALL, NULL);
	char folder[MAXPATHLEN];
	mode_t mask = umask(077);
	zval value;

	umask(mask);
	ZVAL_LONG(&value, mask);
	leak_see(scan, &owner, key_of(SAPI_LEAK_UMASK, NULL, 0), &value, NULL);
	see_text(scan, SAPI_LEAK_DIRECTORY, 0, "working directory", getcwd(folder, sizeof(folder)) ? folder : "(gone)");
	see_text(scan, SAPI_LEAK_LOCALE, 1, "locale", locale ? locale : "");
	see_called_text(scan, SAPI_LEAK_TIMEZONE, 2, "time zone", "date_default_timezone_get");
	see_called_text(scan, SAPI_LEAK_ENCODING, 3, "mb_internal_encoding", "mb_internal_encoding");
	leak_see_count(scan, SAPI_LEAK_DESCRIPTOR, "open descriptors", count_descriptors());
}

void leak_see_process(leak_scan *scan)
{
	see_settings(scan);
	see_handlers(scan);
	see_declarations(scan);
	see_resources(scan);
	see_environment(scan);
	see_process_state(scan);
}
