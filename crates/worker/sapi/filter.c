/*
 * ext/filter takes every variable through sapi_module.input_filter: to apply
 * the default filter, and to keep the raw value for filter_input(). While the
 * default filter is "unsafe_raw", as shipped, only the second is left, and it
 * costs more than filling $_SERVER does. So the request's parameters are shown
 * to ext/filter only once a script asks for them.
 *
 * Runs in: zygote | worker. Called by: functions.c, variables.c, PHP.
 */
#include "context.h"

#include <string.h>

static zif_handler *original_of(const zend_function *function)
{
	size_t i;

	for (i = 0; i < HEARTH_FILTER_FUNCTIONS; i++) {
		if (hearth.filter_functions[i].function == function) {
			return &hearth.filter_functions[i].handler;
		}
	}
	return NULL;
}

/* Stands for filter_input(), filter_input_array() and filter_has_var(). */
static void before_filter_function(INTERNAL_FUNCTION_PARAMETERS)
{
	zif_handler *original = original_of(EX(func));

	if (hearth.request && !hearth.filter_fed) {
		hearth_feed_filter();
	}
	if (original) {
		(*original)(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	}
}

/*
 * Called while modules start. If ext/filter is built in, it has started before, and what is in
 * sapi_module.input_filter now is its own.
 */
void hearth_filter_startup(void)
{
	static const char *const names[HEARTH_FILTER_FUNCTIONS] = { "filter_input", "filter_input_array", "filter_has_var" };
	size_t i;

	hearth.filter = sapi_module.input_filter;
	hearth.filter_default = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("filter.default"));
	for (i = 0; i < HEARTH_FILTER_FUNCTIONS; i++) {
		zend_function *function = zend_hash_str_find_ptr(CG(function_table), names[i], strlen(names[i]));

		if (function && function->type == ZEND_INTERNAL_FUNCTION) {
			hearth.filter_functions[i].function = function;
			hearth.filter_functions[i].handler = function->internal_function.handler;
			function->internal_function.handler = before_filter_function;
		}
	}
}

/* Whether sapi_module.input_filter would change nothing. */
bool hearth_filter_is_plain(void)
{
	if (sapi_module.input_filter == php_default_input_filter) {
		return true;
	}
	/* Not ext/filter's: another extension's, which must see every variable. */
	if (sapi_module.input_filter != hearth.filter || !hearth.filter_default) {
		return false;
	}
	return hearth.filter_default->value && zend_string_equals_literal(hearth.filter_default->value, "unsafe_raw");
}
