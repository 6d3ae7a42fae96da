/*
 * Settings per folder, host and request for classic requests: .user.ini files
 * from the document root down to the script's folder, the [PATH=…] and
 * [HOST=…] sections of php.ini, and what a web server says by FastCGI in
 * PHP_VALUE and PHP_ADMIN_VALUE. Worker scripts have none: they outlive a
 * request.
 *
 * Files are read again after user_ini.cache_ttl seconds, as under php-fpm
 * (sapi/fpm/fpm/fpm_main.c php_cgi_ini_activate_user_config(), 8.2).
 *
 * Runs in: worker. Called by: sapi.c when PHP activates a request.
 */
#include "context.h"

#include <string.h>

#include <Zend/zend_ini_scanner.h>
#include <main/php_ini.h>

typedef struct folder_config {
	double    expires;
	HashTable settings;
} folder_config;

static void free_config(zval *zv)
{
	folder_config *config = Z_PTR_P(zv);

	zend_hash_destroy(&config->settings);
	pefree(config, 1);
}

void hearth_user_ini_startup(void)
{
	zend_hash_init(&hearth.user_ini, 0, NULL, free_config, 1);
}

void hearth_user_ini_shutdown(void)
{
	zend_hash_destroy(&hearth.user_ini);
}

/* `path` ends with a slash. The files of its parents come first, from the document root on. */
static void read_files(folder_config *config, char *path, size_t path_len, const char *root, size_t root_len)
{
	char *slash = path + path_len - 1;

	if (path_len > root_len && strncmp(path, root, root_len) == 0) {
		slash = path + root_len;
	}
	while ((slash = strchr(slash, '/'))) {
		*slash = '\0';
		php_parse_user_ini_file(path, PG(user_ini_filename), &config->settings);
		*slash++ = '/';
	}
}

static void activate_files(char *path, size_t path_len, const char *root, size_t root_len)
{
	folder_config *config = zend_hash_str_find_ptr(&hearth.user_ini, path, path_len);
	double now = sapi_get_request_time();

	if (!config) {
		/* Process memory: kept for the worker's life. */
		config = pemalloc(sizeof(folder_config), 1);
		config->expires = 0;
		zend_hash_init(&config->settings, 0, NULL, config_zval_dtor, 1);
		zend_hash_str_add_ptr(&hearth.user_ini, path, path_len, config);
	}
	if (now > config->expires) {
		zend_hash_clean(&config->settings);
		read_files(config, path, path_len, root, root_len);
		config->expires = now + (double) PG(user_ini_cache_ttl);
	}
	php_ini_activate_config(&config->settings, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
}

static void set_entry(zval *name, zval *value, zval *unused, int kind, void *mode)
{
	if (kind != ZEND_INI_PARSER_ENTRY || !value) {
		return;
	}
	if (zend_alter_ini_entry(Z_STR_P(name), Z_STR_P(value), *(int *) mode, PHP_INI_STAGE_ACTIVATE) == FAILURE) {
		char *message;
		size_t len = spprintf(&message, 0, "the web server's setting %s is not one of PHP's, or not for requests", Z_STRVAL_P(name));

		hearth_log(LOG_WARNING, message, len);
		efree(message);
	}
}

/*
 * As php-fpm (sapi/fpm/fpm/fpm_main.c init_request_info(), 8.2), but for this request alone. Any setting may be given,
 * also one that scripts and folders cannot change; an admin value cannot be changed by the script either.
 */
static void activate_of_web_server(const char *variable, size_t len, int mode)
{
	const sapi_str *lines = hearth_param(variable, len);
	char *text;

	if (!lines || lines->len == 0) {
		return;
	}
	spprintf(&text, 0, "%s\n", lines->bytes);
	zend_parse_ini_string(text, true, ZEND_INI_SCANNER_NORMAL, set_entry, &mode);
	efree(text);
}

void hearth_user_ini_activate(void)
{
	const sapi_str *script = &hearth.request->script;
	const sapi_str *root = hearth_param(ZEND_STRL("DOCUMENT_ROOT"));
	const sapi_str *host = hearth_param(ZEND_STRL("SERVER_NAME"));
	const char *slash = script->bytes ? zend_memrchr(script->bytes, '/', script->len) : NULL;
	size_t path_len;
	char *path;

	if (host && php_ini_has_per_host_config()) {
		char *name = estrndup(host->bytes, host->len);

		zend_str_tolower(name, host->len);
		php_ini_activate_per_host_config(name, host->len);
		efree(name);
	}
	activate_of_web_server(ZEND_STRL("PHP_VALUE"), ZEND_INI_ALL);
	activate_of_web_server(ZEND_STRL("PHP_ADMIN_VALUE"), ZEND_INI_SYSTEM);
	if (!slash) {
		return;
	}
	path_len = (size_t) (slash - script->bytes) + 1;
	path = estrndup(script->bytes, path_len);
	php_ini_activate_per_dir_config(path, path_len);
	if (root && PG(user_ini_filename) && *PG(user_ini_filename)) {
		size_t root_len = root->len;

		if (root_len > 0 && root->bytes[root_len - 1] == '/') {
			root_len--;
		}
		activate_files(path, path_len, root->bytes, root_len);
	}
	efree(path);
}
