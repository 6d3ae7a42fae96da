/*
 * The functions PHP code calls, and the module that brings them. Their
 * declarations are in functions.stub.php; functions_arginfo.h is made from it
 * by gen_stub.php.
 *
 * Runs in: zygote | worker. Called by: PHP.
 */
#include "context.h"

#include <Zend/zend_exceptions.h>
#include <Zend/zend_smart_str.h>
#include <ext/json/php_json.h>
#include <ext/spl/spl_exceptions.h>
#include <ext/standard/head.h>

#include "functions_arginfo.h"

/* Levels of hearth_log(): FrankenPHP's, which are those of Go's log/slog. Any number may be given. */
#define LEVEL_DEBUG (-4)
#define LEVEL_INFO 0
#define LEVEL_WARN 4
#define LEVEL_ERROR 8

/* Of a context: whatever cannot be written is replaced. */
#define CONTEXT_OPTIONS (PHP_JSON_PARTIAL_OUTPUT_ON_ERROR | PHP_JSON_INVALID_UTF8_SUBSTITUTE \
	| PHP_JSON_UNESCAPED_SLASHES | PHP_JSON_UNESCAPED_UNICODE)

/*
 * Under FrankenPHP's name exit() in the handler ends the script: what runs there relies on that (a framework's kernel
 * is left in the middle of a request). The worker is replaced by a fork.
 */
static hearth_exit_ends what_exit_ends(const zend_execute_data *call)
{
	return zend_string_equals_literal(call->func->common.function_name, "frankenphp_handle_request")
		? EXIT_ENDS_SCRIPT : EXIT_ENDS_REQUEST;
}

ZEND_FUNCTION(hearth_handle_request)
{
	zend_fcall_info fci;
	zend_fcall_info_cache fcc;
	const char *why = NULL;

	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(fci, fcc)
	ZEND_PARSE_PARAMETERS_END();

	if (!hearth.resident) {
		why = "called while not in worker mode";
	} else if (hearth.phase == PHASE_REQUEST && !hearth.handled) {
		why = "called while a request is being handled";
	}
	if (why) {
		zend_throw_exception_ex(spl_ce_RuntimeException, 0, "%s() %s", get_active_function_name(), why);
		RETURN_THROWS();
	}
	RETURN_BOOL(hearth_next_request(&fci, &fcc, what_exit_ends(execute_data)));
}

/* A script that runs from the top for each request has its request. */
ZEND_FUNCTION(hearth_request)
{
	ZEND_PARSE_PARAMETERS_NONE();

	if (hearth.resident) {
		hearth_request_of_script();
	}
}

/* As sapi/fpm/fpm/fpm_main.c fastcgi_finish_request() (8.2). */
ZEND_FUNCTION(fastcgi_finish_request)
{
	ZEND_PARSE_PARAMETERS_NONE();

	if (hearth.phase != PHASE_REQUEST || hearth.finished) {
		RETURN_FALSE;
	}
	php_output_end_all();
	php_header();
	hearth.finished = true;
	hearth.host->finish(hearth.exchange);
	RETURN_TRUE;
}

ZEND_FUNCTION(headers_send)
{
	zend_long status = 200;

	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
	ZEND_PARSE_PARAMETERS_END();

	if (status < 100 || status > 599) {
		zend_argument_value_error(1, "must be between 100 and 599");
		RETURN_THROWS();
	}
	/* No other response follows 101 (RFC 9110, 15.2.2). */
	if (status < 200 && status != 101) {
		hearth_send_interim((int) status);
		RETURN_LONG(SAPI_HEADER_SENT_SUCCESSFULLY);
	}
	SG(sapi_headers).http_response_code = (int) status;
	RETURN_LONG(sapi_send_headers());
}

/* As sapi/fpm/fpm/fpm_main.c apache_request_headers() (8.2). */
ZEND_FUNCTION(getallheaders)
{
	size_t i;

	ZEND_PARSE_PARAMETERS_NONE();

	array_init(return_value);
	if (!hearth.request) {
		return;
	}
	for (i = 0; i < hearth.request->param_count; i++) {
		const sapi_param *param = &hearth.request->params[i];

		sapi_add_request_header(param->name.bytes, (unsigned int) param->name.len, (char *) param->value.bytes,
			(unsigned int) param->value.len, return_value);
	}
}

static void add_response_header(void *data, void *array)
{
	sapi_header_struct *header = data;
	const char *end = header->header + header->header_len;
	const char *colon = memchr(header->header, ':', header->header_len);
	const char *value;

	if (!colon || colon == header->header) {
		return;
	}
	value = colon + 1;
	while (value < end && (*value == ' ' || *value == '\t')) {
		value++;
	}
	add_assoc_stringl_ex(array, header->header, colon - header->header, (char *) value, end - value);
}

ZEND_FUNCTION(apache_response_headers)
{
	ZEND_PARSE_PARAMETERS_NONE();

	array_init(return_value);
	zend_llist_apply_with_argument(&SG(sapi_headers).headers, add_response_header, return_value);
}

static int log_priority(zend_long level)
{
	if (level >= LEVEL_ERROR) {
		return LOG_ERR;
	}
	if (level >= LEVEL_WARN) {
		return LOG_WARNING;
	}
	return level >= LEVEL_INFO ? LOG_INFO : LOG_DEBUG;
}

ZEND_FUNCTION(hearth_log)
{
	zend_string *message;
	zend_long level = LEVEL_INFO;
	zval *context = NULL;
	smart_str line = {0};

	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_STR(message)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(level)
		Z_PARAM_ARRAY(context)
	ZEND_PARSE_PARAMETERS_END();

	smart_str_append(&line, message);
	if (context && zend_hash_num_elements(Z_ARRVAL_P(context)) > 0) {
		smart_str_appendc(&line, ' ');
		php_json_encode(&line, context, CONTEXT_OPTIONS);
	}
	smart_str_0(&line);
	if (line.s && !EG(exception)) {
		hearth_log(log_priority(level), ZSTR_VAL(line.s), ZSTR_LEN(line.s));
	}
	smart_str_free(&line);
}

static void register_log_levels(int module_number)
{
	REGISTER_LONG_CONSTANT("HEARTH_LOG_LEVEL_DEBUG", LEVEL_DEBUG, CONST_PERSISTENT);
	REGISTER_LONG_CONSTANT("HEARTH_LOG_LEVEL_INFO", LEVEL_INFO, CONST_PERSISTENT);
	REGISTER_LONG_CONSTANT("HEARTH_LOG_LEVEL_WARN", LEVEL_WARN, CONST_PERSISTENT);
	REGISTER_LONG_CONSTANT("HEARTH_LOG_LEVEL_ERROR", LEVEL_ERROR, CONST_PERSISTENT);
	REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_DEBUG", LEVEL_DEBUG, CONST_PERSISTENT);
	REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_INFO", LEVEL_INFO, CONST_PERSISTENT);
	REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_WARN", LEVEL_WARN, CONST_PERSISTENT);
	REGISTER_LONG_CONSTANT("FRANKENPHP_LOG_LEVEL_ERROR", LEVEL_ERROR, CONST_PERSISTENT);
}

/*
 * OPcache starts only under the SAPI names it knows. It looks while extensions start, which is after this and
 * before php_module_startup() returns: for that time the name is FPM's. PHP_SAPI is defined by then, and
 * sapi_boot() puts the name back for php_sapi_name().
 */
static PHP_MINIT_FUNCTION(hearth)
{
	sapi_module.name = "fpm-fcgi";
	hearth_variables_startup();
	hearth_user_ini_startup();
	hearth_filter_startup();
	hearth_ask_startup();
	hearth_reads_startup();
	register_log_levels(module_number);
	return SUCCESS;
}

zend_module_entry hearth_module_entry = {
	STANDARD_MODULE_HEADER,
	"hearth",
	ext_functions,
	PHP_MINIT(hearth),
	NULL,
	NULL,
	NULL,
	NULL,
	"0.1.0",
	STANDARD_MODULE_PROPERTIES
};
