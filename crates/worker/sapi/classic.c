/*
 * What happens in a classic request: PHP's own start and end, around the
 * script that the request names.
 *
 * Runs in: worker. Called by: sapi.c.
 */
#include "context.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ZEND_COLD void refuse(int status, const char *body, size_t len)
{
	zend_try {
		SG(sapi_headers).http_response_code = status;
		php_output_write(body, len);
	} zend_end_try();
}

static ZEND_COLD void log_unreadable(const char *script, const char *why)
{
	char *message;
	size_t len = spprintf(&message, 0, "Unable to open primary script: %s (%s)", script, why);

	hearth_log(LOG_ERR, message, len);
	efree(message);
}

/*
 * Whether the script is there, with php-fpm's answers if not (sapi/fpm/fpm/fpm_main.c main(), 8.2). PHP opens the
 * file itself, and only if OPcache does not have it. A web server that speaks FastCGI may have named none.
 */
static bool check_script(const char *script)
{
	struct stat about;

	if (!script || stat(script, &about) != 0) {
		if (!script || errno != EACCES) {
			hearth_log(LOG_ERR, ZEND_STRL("Primary script unknown"));
			refuse(404, ZEND_STRL("File not found.\n"));
			return false;
		}
	} else if (!S_ISREG(about.st_mode)) {
		log_unreadable(script, "not a file");
		refuse(404, ZEND_STRL("No input file specified.\n"));
		return false;
	} else if (access(script, R_OK) == 0) {
		return true;
	}
	log_unreadable(script, strerror(errno));
	refuse(403, ZEND_STRL("Access denied.\n"));
	return false;
}

void hearth_run_classic(void)
{
	hearth.resident = false;
	hearth.finished = false;
	hearth.headers_sent = false;
	hearth.fatal = false;
	hearth.phase = PHASE_REQUEST;
	hearth.script = NULL;
	hearth_fill_request_info();
	if (php_request_startup() == SUCCESS) {
		compat_set_stack(hearth.php_stack, PHP_STACK_SIZE);
		EG(exit_status) = 0;
		if (check_script(hearth.request->script.bytes)) {
			zend_file_handle file;

			zend_stream_init_filename(&file, hearth.request->script.bytes);
			file.primary_script = 1;
			php_execute_script(&file);
			zend_destroy_file_handle(&file);
		}
	}
	hearth.exit_status = EG(exit_status);
	php_request_shutdown(NULL);
	hearth_forget_request_info();
	compat_keep_signal_handlers();
	hearth.phase = PHASE_IDLE;
}
