/*
 * The warm-up of a worker script: one or more complete PHP requests in the
 * zygote in which the script serves requests, before the one that is forked.
 * Each ends as under php-fpm, with its state; what the engine cached is
 * carried over (carry.c).
 *
 * Runs in: zygote. Called by: request.c, at the ends of a worker script's
 * life, and warm.rs.
 */
#include "context.h"

#include <string.h>
#include <strings.h>

#include <Zend/zend_exceptions.h>
#include <Zend/zend_list.h>
#include <Zend/zend_observer.h>
#include <ext/date/php_date.h>

/* {{{ OPcache */

static zend_long number_at(const zval *array, const char *name)
{
	const zval *value = array && Z_TYPE_P(array) == IS_ARRAY ? zend_hash_str_find(Z_ARRVAL_P(array), name, strlen(name)) : NULL;

	return value && Z_TYPE_P(value) == IS_LONG ? Z_LVAL_P(value) : 0;
}

/* Why nothing can be carried over, or NULL; *restarts is how often OPcache has thrown away all it had. */
static const char *opcache_state(zend_long *restarts)
{
	const char *why = NULL;
	zval function, argument, status;

	if (!zend_hash_str_exists(EG(function_table), ZEND_STRL("opcache_get_status"))) {
		return "OPcache is not loaded";
	}
	ZVAL_STRING(&function, "opcache_get_status");
	ZVAL_FALSE(&argument);
	ZVAL_UNDEF(&status);
	call_user_function(NULL, NULL, &function, &status, 1, &argument);
	if (EG(exception)) {
		zend_clear_exception();
	}
	if (Z_TYPE(status) != IS_ARRAY) {
		why = "OPcache is off, or opcache.restrict_api hides its state";
	} else {
		const zval *pending = zend_hash_str_find(Z_ARRVAL(status), ZEND_STRL("restart_pending"));
		const zval *counts = zend_hash_str_find(Z_ARRVAL(status), ZEND_STRL("opcache_statistics"));

		if (pending && Z_TYPE_P(pending) == IS_TRUE) {
			why = "OPcache is about to restart";
		}
		*restarts = number_at(counts, "oom_restarts") + number_at(counts, "hash_restarts") + number_at(counts, "manual_restarts");
	}
	zval_ptr_dtor(&status);
	zval_ptr_dtor(&function);
	return why;
}

static const char *why_not(zend_long *restarts)
{
	if (!is_zend_mm()) {
		return "PHP's memory manager is off (USE_ZEND_ALLOC)";
	}
	if (zend_observer_fcall_op_array_extension != -1) {
		return "an extension watches the calls of functions";
	}
	return opcache_state(restarts);
}

bool sapi_jit(void)
{
	const char *jit = zend_ini_string((char *) ZEND_STRL("opcache.jit"), 0);
	const char *const off[] = { "", "0", "off", "no", "false", "disable" };
	size_t i;

	if (!jit || zend_ini_long((char *) ZEND_STRL("opcache.enable"), 0) == 0
			|| zend_ini_long((char *) ZEND_STRL("opcache.jit_buffer_size"), 0) <= 0) {
		return false;
	}
	for (i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		if (strcasecmp(jit, off[i]) == 0) {
			return false;
		}
	}
	return true;
}
/* }}} */

/* {{{ Ends of a worker script's life */

void hearth_warm_before_shutdown(void)
{
	zend_long restarts = 0;
	const char *why;

	if (!hearth.warming) {
		return;
	}
	why = why_not(&restarts);
	if (!why && hearth.carry && restarts != hearth.opcache_restarts) {
		why = "OPcache has restarted";
	}
	hearth.opcache_restarts = restarts;
	if (why) {
		hearth.warmth.skipped = why;
	} else {
		hearth.carry = hearth_carry_capture(hearth.carry);
	}
}

/* Persistent connections are the process's, and no worker may share one with another. No object uses one any more. */
void hearth_warm_after_shutdown(void)
{
	if (hearth.warming) {
		zend_hash_clean(&EG(persistent_list));
	}
}

/*
 * As if the script had named the classes of the warm-up itself. Nothing is shown of what goes wrong: a class that cannot
 * be loaded now is loaded later, by the request that needs it. False: an error was fatal.
 */
static bool load_quietly(void)
{
	zval error_handler;
	int error_reporting = EG(error_reporting);
	volatile bool loaded = false;

	ZVAL_COPY_VALUE(&error_handler, &EG(user_error_handler));
	ZVAL_UNDEF(&EG(user_error_handler));
	EG(error_reporting) = 0;
	zend_try {
		hearth_carry_load(hearth.carry, &hearth.warmth);
		loaded = true;
	} zend_end_try();
	EG(error_reporting) = error_reporting;
	ZVAL_COPY_VALUE(&EG(user_error_handler), &error_handler);
	return loaded;
}

static void forget(const char *why)
{
	if (why) {
		hearth.warmth.skipped = why;
	}
	if (hearth.carry) {
		hearth_carry_forget(hearth.carry);
		hearth.carry = NULL;
	}
}

void hearth_warm_before_first_request(void)
{
	zend_long restarts = 0;
	const char *why;

	if (hearth.warming || !hearth.warmed) {
		return;
	}
	hearth.warmed = false;
	if (hearth.carry && !hearth.warmth.skipped) {
		why = why_not(&restarts);
		if (!why && restarts != hearth.opcache_restarts) {
			why = "OPcache has restarted";
		}
		if (!why && !load_quietly()) {
			forget("a class of the warm-up could not be loaded again");
			hearth.warmth.failed = true;
			zend_bailout();
		}
		if (!why) {
			hearth_carry_put(hearth.carry, &hearth.warmth);
		}
		forget(why);
	}
	forget(NULL);
	/* The rules of the time zone are read from its file once a request. */
	(void) get_timezone_info();
}
/* }}} */

/* {{{ The contract of sapi.h */

void sapi_warm(bool on)
{
	hearth.warming = on;
	hearth.warmed = !on;
	if (on) {
		memset(&hearth.warmth, 0, sizeof(hearth.warmth));
	}
}

sapi_warmth sapi_warmed(void)
{
	return hearth.warmth;
}
/* }}} */
