/*
 * The superglobals of a resident request, in the place of those that the boot
 * or the last request had. $_SERVER's content is in variables.c.
 *
 * Runs in: worker (and zygote, for a warm-up and the end of the boot). Called
 * by: request.c.
 */
#include "context.h"

#ifdef HAVE_PHP_SESSION
# include <ext/session/php_session.h>
#endif

void hearth_note_references(void)
{
	zend_auto_global *global;

	hearth.boot_references = false;
	ZEND_HASH_MAP_FOREACH_PTR(CG(auto_globals), global) {
		const zval *value = zend_hash_find(&EG(symbol_table), global->name);

		hearth.boot_references |= value && Z_ISREF_P(value);
	} ZEND_HASH_FOREACH_END();
}

/* PHP replaces a superglobal. Whoever holds a reference to it is to see what it is replaced by. */
static void import_into_reference(zend_auto_global *global)
{
	zval *value = zend_hash_find(&EG(symbol_table), global->name);
	zval reference, old;

	if (!value || !Z_ISREF_P(value)) {
		global->armed = global->auto_global_callback(global->name);
		return;
	}
	ZVAL_COPY(&reference, value);
	global->armed = global->auto_global_callback(global->name);
	value = zend_hash_find(&EG(symbol_table), global->name);
	if (value && !Z_ISREF_P(value)) {
		ZVAL_COPY_VALUE(&old, Z_REFVAL(reference));
		ZVAL_COPY_VALUE(Z_REFVAL(reference), value);
		ZVAL_COPY_VALUE(value, &reference);
		/* Last, because its destructors may read the superglobal. */
		zval_ptr_dtor(&old);
	} else {
		zval_ptr_dtor(&reference);
	}
}

/*
 * As main/php_variables.c php_hash_environment() (8.2), with these differences: $_SERVER and $_REQUEST are filled
 * even if auto_globals_jit is set, because code that reads them may have been compiled long ago; $_ENV is left as
 * the boot made it, because applications put their configuration there (Symfony's Dotenv), and workers of
 * FrankenPHP keep it too.
 *
 * Modules are not active meanwhile, as in php_request_startup(): sessions follow uploads only then. They are not to do
 * so with a save handler of the script's, for php-fpm has none yet.
 */
void hearth_import_superglobals(void)
{
	zend_auto_global *global;

	zval_ptr_dtor_nogc(&PG(http_globals)[TRACK_VARS_FILES]);
	ZVAL_UNDEF(&PG(http_globals)[TRACK_VARS_FILES]);
	zend_hash_str_del(&EG(symbol_table), ZEND_STRL("_SESSION"));
#ifdef HAVE_PHP_SESSION
	PG(modules_activated) = PS(mod_user_implemented);
#endif

	ZEND_HASH_MAP_FOREACH_PTR(CG(auto_globals), global) {
		if (!global->auto_global_callback) {
			global->armed = 0;
		} else if (zend_string_equals_literal(global->name, "_ENV")
				|| zend_string_equals_literal(global->name, "GLOBALS")) {
			continue;
		} else if (hearth.boot_references) {
			import_into_reference(global);
		} else {
			global->armed = global->auto_global_callback(global->name);
		}
	} ZEND_HASH_FOREACH_END();
	PG(modules_activated) = true;
}
