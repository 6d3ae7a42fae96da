/*
 * $_SERVER: the environment as it was at boot, then the request's parameters,
 * in the order in which php-fpm shows them.
 *
 * Known names are interned once, so that a request hashes no key and copies
 * each value once.
 *
 * Runs in: zygote | worker. Called by: sapi.c, request.c, PHP.
 */
#include "context.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* By it scripts for FrankenPHP know their server. */
#define SIGN "FRANKENPHP_WORKER"
/* Room left in the environment's table for a request's parameters, so that the copy need not grow. */
#define PARAM_ROOM 64

static const char *const known_names[] = {
	"USER", "HOME", "FCGI_ROLE", "PATH_INFO", "PATH_TRANSLATED", "ORIG_PATH_INFO", "SCRIPT_FILENAME", "QUERY_STRING",
	"REQUEST_METHOD", "CONTENT_TYPE", "CONTENT_LENGTH", "SCRIPT_NAME", "REQUEST_URI", "DOCUMENT_URI", "DOCUMENT_ROOT",
	"SERVER_PROTOCOL", "REQUEST_SCHEME", "GATEWAY_INTERFACE", "SERVER_SOFTWARE", "REMOTE_ADDR", "REMOTE_PORT",
	"REMOTE_USER", "AUTH_TYPE", "SERVER_ADDR", "SERVER_PORT", "SERVER_NAME", "REDIRECT_STATUS", "HTTPS", "PHP_SELF",
	"SSL_PROTOCOL", "SSL_CIPHER", "REQUEST_ID", "HTTP_HOST", "HTTP_USER_AGENT", "HTTP_ACCEPT", "HTTP_ACCEPT_LANGUAGE",
	"HTTP_ACCEPT_ENCODING", "HTTP_ACCEPT_CHARSET", "HTTP_AUTHORIZATION", "HTTP_CACHE_CONTROL", "HTTP_CONNECTION",
	"HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE", "HTTP_COOKIE", "HTTP_DNT", "HTTP_EXPECT", "HTTP_FORWARDED",
	"HTTP_IF_MATCH", "HTTP_IF_MODIFIED_SINCE", "HTTP_IF_NONE_MATCH", "HTTP_IF_RANGE", "HTTP_KEEP_ALIVE", "HTTP_ORIGIN",
	"HTTP_PRAGMA", "HTTP_PRIORITY", "HTTP_RANGE", "HTTP_REFERER", "HTTP_SEC_CH_UA", "HTTP_SEC_CH_UA_MOBILE",
	"HTTP_SEC_CH_UA_PLATFORM", "HTTP_SEC_FETCH_DEST", "HTTP_SEC_FETCH_MODE", "HTTP_SEC_FETCH_SITE",
	"HTTP_SEC_FETCH_USER", "HTTP_TE", "HTTP_UPGRADE", "HTTP_UPGRADE_INSECURE_REQUESTS", "HTTP_VIA",
	"HTTP_X_CSRF_TOKEN", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PORT",
	"HTTP_X_FORWARDED_PROTO", "HTTP_X_REAL_IP", "HTTP_X_REQUEST_ID", "HTTP_X_REQUESTED_WITH", "HTTP_X_XSRF_TOKEN",
};

extern char **environ;

static void import_live_environment(zval *vars);

/* As main/php_variables.c import_environment_variable() (8.2) takes an entry of the environment. */
static void add_environment(zend_array *table, const char *entry)
{
	const char *equals = strchr(entry, '=');
	const char *at;
	zend_string *name;
	zend_ulong index;
	zval value;

	if (!equals || equals == entry) {
		return;
	}
	for (at = entry; at < equals; at++) {
		if (*at == ' ' || *at == '.' || *at == '[') {
			return;
		}
	}
	ZVAL_INTERNED_STR(&value, zend_string_init_interned(equals + 1, strlen(equals + 1), 1));
	if (ZEND_HANDLE_NUMERIC_STR(entry, equals - entry, index)) {
		zend_hash_index_update(table, index, &value);
		return;
	}
	name = zend_string_init_interned(entry, equals - entry, 1);
	zend_hash_update(table, name, &value);
}

/*
 * php-fpm gives its workers the name and the folder of their user (sapi/fpm/fpm/fpm_env.c, 8.2). What the
 * environment says wins here: a container may have chosen a HOME.
 */
static void add_user(void)
{
	const struct passwd *user = getpwuid(geteuid());

	if (user) {
		setenv("USER", user->pw_name, 0);
		setenv("HOME", user->pw_dir, 0);
	}
}

/*
 * Called while modules start: strings interned now stay for the life of the process.
 */
void hearth_variables_startup(void)
{
	size_t i, count = 0;

	zend_hash_init(&hearth.names, sizeof(known_names) / sizeof(known_names[0]), NULL, NULL, 1);
	for (i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++) {
		zend_string *name = zend_string_init_interned(known_names[i], strlen(known_names[i]), 1);

		zend_hash_add_ptr(&hearth.names, name, name);
	}
	add_user();
	while (environ && environ[count]) {
		count++;
	}
	/* Process memory. */
	hearth.environment = pemalloc(sizeof(zend_array), 1);
	zend_hash_init(hearth.environment, (uint32_t) (count + PARAM_ROOM), NULL, NULL, 1);
	zend_hash_real_init_mixed(hearth.environment);
	for (i = 0; i < count; i++) {
		add_environment(hearth.environment, environ[i]);
	}
	compat_replace_environment_import(&hearth.import_environment, import_live_environment);
}

void hearth_variables_shutdown(void)
{
	zend_hash_destroy(&hearth.names);
	zend_hash_destroy(hearth.environment);
	pefree(hearth.environment, 1);
	hearth.environment = NULL;
}

static bool is_plain_name(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (!((name[i] >= 'A' && name[i] <= 'Z') || name[i] == '_' || (i > 0 && name[i] >= '0' && name[i] <= '9'))) {
			return false;
		}
	}
	return len > 0;
}

static void add_param(zval *vars, const sapi_param *param)
{
	zend_string *name = zend_hash_str_find_ptr(&hearth.names, param->name.bytes, param->name.len);
	zval value;

	if (!name && !is_plain_name(param->name.bytes, param->name.len)) {
		php_register_variable_safe(param->name.bytes, param->value.bytes, param->value.len, vars);
		return;
	}
	ZVAL_STRINGL_FAST(&value, param->value.bytes, param->value.len);
	if (name) {
		zend_hash_update(Z_ARRVAL_P(vars), name, &value);
		return;
	}
	name = zend_string_init(param->name.bytes, param->name.len, 0);
	zend_hash_update(Z_ARRVAL_P(vars), name, &value);
	zend_string_release_ex(name, 0);
}

static void add_filtered(zval *vars, const char *name, const char *value, size_t len)
{
	char *copy = estrndup(value, len);
	size_t new_len = len;

	if (sapi_module.input_filter(PARSE_SERVER, name, &copy, len, &new_len)) {
		php_register_variable_safe(name, copy, new_len, vars);
	}
	efree(copy);
}

const sapi_str *hearth_param(const char *name, size_t name_len)
{
	size_t i;

	for (i = 0; hearth.request && i < hearth.request->param_count; i++) {
		const sapi_param *param = &hearth.request->params[i];

		if (param->name.len == name_len && memcmp(param->name.bytes, name, name_len) == 0) {
			return &param->value;
		}
	}
	return NULL;
}

/* SCRIPT_NAME and PATH_INFO, as sapi/fpm/fpm/fpm_main.c sapi_cgi_register_variables() (8.2) joins them. */
static void add_php_self(zval *vars, bool plain)
{
	const sapi_str *script = hearth_param(ZEND_STRL("SCRIPT_NAME"));
	const sapi_str *path = hearth_param(ZEND_STRL("PATH_INFO"));
	zend_string *self = zend_string_concat2(script ? script->bytes : "", script ? script->len : 0,
		path ? path->bytes : "", path ? path->len : 0);

	if (plain) {
		zval value;

		ZVAL_STR(&value, self);
		zend_hash_update(Z_ARRVAL_P(vars), zend_hash_str_find_ptr(&hearth.names, ZEND_STRL("PHP_SELF")), &value);
		return;
	}
	add_filtered(vars, "PHP_SELF", ZSTR_VAL(self), ZSTR_LEN(self));
	zend_string_release_ex(self, 0);
}

/*
 * The boot of a worker script: what php-cli shows, and the sign, which as with FrankenPHP is no variable of the process:
 * requests do not see it, nor do programs that they start.
 */
static void add_boot_variables(zval *vars)
{
	php_register_variable("PHP_SELF", hearth.script, vars);
	php_register_variable("SCRIPT_NAME", hearth.script, vars);
	php_register_variable("SCRIPT_FILENAME", hearth.script, vars);
	php_register_variable("PATH_TRANSLATED", hearth.script, vars);
	php_register_variable("DOCUMENT_ROOT", "", vars);
	if (hearth.resident) {
		php_register_variable(SIGN, "1", vars);
	}
}

/*
 * getenv() without a name, and $_ENV if variables_order asks for it: under php-fpm the live environment and the
 * request's parameters (sapi/fpm/fpm/fpm_main.c cgi_php_import_environment_variables(), 8.2).
 */
static void import_live_environment(zval *vars)
{
	size_t i;

	hearth.import_environment(vars);
	for (i = 0; hearth.request && i < hearth.request->param_count; i++) {
		add_param(vars, &hearth.request->params[i]);
	}
}

static void import_boot_environment(zval *vars)
{
	zend_array *copy = zend_array_dup(hearth.environment);

	zend_array_destroy(Z_ARR_P(vars));
	ZVAL_ARR(vars, copy);
}

bool hearth_is_of_request(const zend_string *name)
{
	if (zend_string_equals_literal(name, "USER") || zend_string_equals_literal(name, "HOME")) {
		return false;
	}
	return zend_hash_exists(&hearth.names, (zend_string *) name) || zend_string_starts_with_literal(name, "HTTP_")
		|| zend_string_starts_with_literal(name, "PHP_AUTH_");
}

/* Names of which the request has its own, or none. */
static bool is_never_kept(const zend_string *name)
{
	return hearth_is_of_request(name) || zend_string_equals_literal(name, "argv") || zend_string_equals_literal(name, "argc");
}

/* PHP keeps what it has made of $_SERVER beside what the script has made of it since. */
void hearth_keep_added(void)
{
	zval *now = zend_hash_str_find(&EG(symbol_table), ZEND_STRL("_SERVER"));
	const zval *then = &PG(http_globals)[TRACK_VARS_SERVER];
	zend_string *name;
	zend_ulong index;
	zval *value;

	if (!now) {
		return;
	}
	ZVAL_DEREF(now);
	if (Z_TYPE_P(now) != IS_ARRAY || Z_TYPE_P(then) != IS_ARRAY || Z_ARR_P(now) == Z_ARR_P(then)) {
		return;
	}
	hearth.boot_added = zend_new_array(0);
	ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL_P(now), index, name, value) {
		const zval *was = name ? zend_hash_find(Z_ARRVAL_P(then), name) : zend_hash_index_find(Z_ARRVAL_P(then), index);

		ZVAL_DEREF(value);
		if ((was && zend_is_identical((zval *) was, value)) || (name && is_never_kept(name))) {
			continue;
		}
		Z_TRY_ADDREF_P(value);
		if (name) {
			zend_hash_add_new(hearth.boot_added, name, value);
		} else {
			zend_hash_index_add_new(hearth.boot_added, index, value);
		}
	} ZEND_HASH_FOREACH_END();
}

void hearth_register_variables(zval *vars)
{
	bool plain = hearth_filter_is_plain();
	size_t i;

	import_boot_environment(vars);
	if (!hearth.request) {
		if (hearth.script) {
			add_boot_variables(vars);
		}
		return;
	}
	if (hearth.boot_added) {
		zend_hash_copy(Z_ARRVAL_P(vars), hearth.boot_added, zval_add_ref);
	}
	for (i = 0; i < hearth.request->param_count; i++) {
		const sapi_param *param = &hearth.request->params[i];

		if (plain) {
			add_param(vars, param);
		} else {
			add_filtered(vars, param->name.bytes, param->value.bytes, param->value.len);
		}
	}
	add_php_self(vars, plain);
	hearth.filter_fed = !plain;
}

void hearth_feed_filter(void)
{
	zval unused;
	size_t i;

	array_init(&unused);
	for (i = 0; i < hearth.request->param_count; i++) {
		const sapi_param *param = &hearth.request->params[i];

		add_filtered(&unused, param->name.bytes, param->value.bytes, param->value.len);
	}
	add_php_self(&unused, false);
	zval_ptr_dtor(&unused);
	hearth.filter_fed = true;
}

char *hearth_getenv(const char *name, size_t name_len)
{
	const sapi_str *value = hearth_param(name, name_len);

	if (!hearth.request && hearth.resident && hearth.script
			&& name_len == sizeof(SIGN) - 1 && memcmp(name, SIGN, name_len) == 0) {
		return "1";
	}
	return value ? (char *) value->bytes : NULL;
}

char *hearth_read_cookies(void)
{
	return hearth.request ? (char *) hearth.request->cookies.bytes : NULL;
}
