/*
 * The last exception of a boot. A framework handles what is thrown while it
 * boots: it prints a page that nobody asked for, and its script runs to the
 * end as if all were well. Then this is what there is to say.
 *
 * Runs in: zygote. Called by: sapi.c, request.c.
 */
#include "context.h"

#include <string.h>

#include <Zend/zend_exceptions.h>

static void (*next_throw_hook)(zend_object *exception);
/* Empty: none was thrown. It is told of when the memory of the script's request is gone. */
static char thrown[1024];

static const char *text_of(zend_class_entry *base, zend_object *exception, zend_known_string_id name)
{
	zval rv;
	zval *value = zend_read_property_ex(base, exception, ZSTR_KNOWN(name), true, &rv);

	ZVAL_DEREF(value);
	return Z_TYPE_P(value) == IS_STRING ? Z_STRVAL_P(value) : "";
}

static zend_long line_of(zend_class_entry *base, zend_object *exception)
{
	zval rv;
	zval *value = zend_read_property_ex(base, exception, ZSTR_KNOWN(ZEND_STR_LINE), true, &rv);

	ZVAL_DEREF(value);
	return Z_TYPE_P(value) == IS_LONG ? Z_LVAL_P(value) : 0;
}

static void note_thrown(zend_object *exception)
{
	if (exception && hearth.phase == PHASE_BOOT && instanceof_function(exception->ce, zend_ce_throwable)) {
		zend_class_entry *base = instanceof_function(exception->ce, zend_ce_error) ? zend_ce_error : zend_ce_exception;

		snprintf(thrown, sizeof(thrown), "last exception thrown: %s: %s in %s:" ZEND_LONG_FMT,
			ZSTR_VAL(exception->ce->name), text_of(base, exception, ZEND_STR_MESSAGE),
			text_of(base, exception, ZEND_STR_FILE), line_of(base, exception));
	}
	if (next_throw_hook) {
		next_throw_hook(exception);
	}
}

void hearth_thrown_startup(void)
{
	next_throw_hook = zend_throw_exception_hook;
	zend_throw_exception_hook = note_thrown;
}

void hearth_thrown_forget(void)
{
	thrown[0] = '\0';
}

void hearth_thrown_report(void)
{
	bool unexplained = hearth.ended == SAPI_END_RETURNED || hearth.ended == SAPI_END_EXIT;

	if (hearth.phase == PHASE_BOOT && unexplained && thrown[0]) {
		hearth_log(LOG_ERR, thrown, strlen(thrown));
	}
}
