/*
 * The session of a resident request, and other modules whose state is of one
 * request: started and ended as PHP does it around a script.
 *
 * Runs in: worker (and zygote, for the end of the boot). Called by: request.c.
 */
#include "context.h"

#ifdef HAVE_PHP_SESSION
# include <ext/session/php_session.h>
#endif

void hearth_call_module(const char *name, size_t name_len, bool startup)
{
	zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, name, name_len);

	if (module && startup && module->request_startup_func) {
		module->request_startup_func(module->type, module->module_number);
	}
	if (module && !startup && module->request_shutdown_func) {
		module->request_shutdown_func(module->type, module->module_number);
	}
}

void hearth_begin_session(void)
{
#ifdef HAVE_PHP_SESSION
	if (PS(auto_start) && PS(session_status) == php_session_none) {
		php_session_start();
	}
#else
	hearth_call_module(ZEND_STRL("session"), true);
#endif
}

/*
 * As ext/session/session.c RSHUTDOWN and RINIT (8.2), but the save handler, a user's too, stays: it is the
 * application's, set once while it booted.
 */
void hearth_end_session(void)
{
#ifdef HAVE_PHP_SESSION
	if (PS(session_status) == php_session_active) {
		zend_try {
			php_session_flush(1);
		} zend_end_try();
	}
	zval_ptr_dtor(&PS(http_session_vars));
	ZVAL_UNDEF(&PS(http_session_vars));
	if (PS(mod) && (PS(mod_data) || PS(mod_user_implemented))) {
		zend_try {
			PS(mod)->s_close(&PS(mod_data));
		} zend_end_try();
	}
	if (PS(id)) {
		zend_string_release_ex(PS(id), 0);
		PS(id) = NULL;
	}
	if (PS(session_vars)) {
		zend_string_release_ex(PS(session_vars), 0);
		PS(session_vars) = NULL;
	}
	compat_forget_session_start();
	if (PS(session_status) != php_session_disabled) {
		PS(session_status) = php_session_none;
	}
	PS(in_save_handler) = 0;
	PS(set_handler) = 0;
	PS(mod_data) = NULL;
	PS(mod_user_is_open) = 0;
	PS(define_sid) = 1;
#else
	hearth_call_module(ZEND_STRL("session"), false);
#endif
}

bool hearth_script_has_session(void)
{
#ifdef HAVE_PHP_SESSION
	return PS(session_status) == php_session_active && !PS(auto_start);
#else
	return false;
#endif
}
