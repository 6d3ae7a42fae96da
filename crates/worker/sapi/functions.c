/*
 * The functions PHP code calls, and the module that brings them. Their
 * declarations are in functions.stub.php; functions_arginfo.h is made from it
 * by gen_stub.php.
 *
 * Runs in: zygote | worker. Called by: PHP.
 */
#include "context.h"

#include <Zend/zend_exceptions.h>
#include <ext/spl/spl_exceptions.h>
#include <ext/standard/head.h>

#include "functions_arginfo.h"

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
