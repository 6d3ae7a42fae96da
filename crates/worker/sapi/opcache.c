/*
 * opcache_reset(), in Hearth's way. OPcache's own would empty the memory that
 * all workers share once nobody uses it, which never comes: until then it
 * caches nothing, and rewound workers would go on with what is not there any
 * more. So the server is told instead that the application wants its code
 * read anew. opcache_invalidate(), which is about one file, stays OPcache's.
 *
 * Runs in: zygote | worker. Called by: sapi.c, PHP.
 */
#include "context.h"

#include <string.h>

/* As ext/opcache/zend_accelerator_module.c validate_api_restriction() (8.2). */
static bool is_permitted(void)
{
	const char *restricted = INI_STR("opcache.restrict_api");
	const char *script = SG(request_info).path_translated;

	if (!restricted || !*restricted || (script && strncmp(script, restricted, strlen(restricted)) == 0)) {
		return true;
	}
	zend_error(E_WARNING, "Zend OPcache API is restricted by \"restrict_api\" configuration directive");
	return false;
}

static ZEND_FUNCTION(reload)
{
	ZEND_PARSE_PARAMETERS_NONE();

	if (!is_permitted() || !INI_BOOL("opcache.enable")) {
		RETURN_FALSE;
	}
	hearth.host->reload(hearth.exchange);
	RETURN_TRUE;
}

void hearth_opcache_startup(void)
{
	zend_function *reset = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("opcache_reset"));

	if (reset && reset->type == ZEND_INTERNAL_FUNCTION) {
		reset->internal_function.handler = ZEND_FN(reload);
	}
}
