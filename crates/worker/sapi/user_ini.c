/*
 * Settings per folder and per host for classic requests: .user.ini files from
 * the document root down to the script's folder, and the [PATH=…] and
 * [HOST=…] sections of php.ini. Worker scripts have none: they outlive a
 * request.
 *
 * Files are read again after user_ini.cache_ttl seconds, as under php-fpm
 * (sapi/fpm/fpm/fpm_main.c php_cgi_ini_activate_user_config(), 8.2).
 *
 * Runs in: worker. Called by: sapi.c when PHP activates a request.
 */
#include "context.h"

#include <string.h>

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
