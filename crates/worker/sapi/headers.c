/*
 * The head of a response: its status and its headers, as php-fpm and the web
 * server in front of it make them of what a script has said.
 *
 * Runs in: worker (and zygote, while it warms). Called by: sapi.c and
 * functions.c.
 */
#include "context.h"

#include <string.h>

static sapi_str trim(const char *bytes, size_t len)
{
	sapi_str str;

	while (len > 0 && (*bytes == ' ' || *bytes == '\t')) {
		bytes++;
		len--;
	}
	while (len > 0 && (bytes[len - 1] == ' ' || bytes[len - 1] == '\t')) {
		len--;
	}
	str.bytes = bytes;
	str.len = len;
	return str;
}

static bool header_is(const sapi_header_struct *header, const char *name, size_t name_len)
{
	return header->header_len > name_len && header->header[name_len] == ':'
		&& strncasecmp(header->header, name, name_len) == 0;
}

/* "404 Not here" => 404 and "Not here"; false if there is no status in it. */
static bool parse_status(sapi_str text, int *status, sapi_str *reason)
{
	size_t digits = 0;
	int number = 0;

	while (digits < text.len && digits < 4 && text.bytes[digits] >= '0' && text.bytes[digits] <= '9') {
		number = number * 10 + (text.bytes[digits] - '0');
		digits++;
	}
	if (digits != 3 || number < 100 || (digits < text.len && text.bytes[digits] != ' ')) {
		return false;
	}
	*status = number;
	*reason = trim(text.bytes + digits, text.len - digits);
	return true;
}

/*
 * The status and its reason, as sapi/fpm/fpm/fpm_main.c sapi_cgi_send_headers() (8.2) and the web server in
 * front of it make them: a status other than 200 comes from the status line if the script wrote one; else a
 * "Status:" header decides, if there is one; else 200 with a "Location:" is a redirection (RFC 3875 §6.2.4, and
 * nginx takes it so).
 */
static int response_status(sapi_headers_struct *headers, sapi_str *reason)
{
	int status = headers->http_response_code ? headers->http_response_code : 200;
	const char *line = headers->http_status_line;
	zend_llist_position position;
	sapi_header_struct *header;
	bool location = false;

	reason->bytes = "";
	reason->len = 0;
	if (status != 200 && line && strncasecmp(line, "HTTP/", sizeof("HTTP/") - 1) == 0) {
		const char *space = strchr(line, ' ');

		if (space) {
			(void) parse_status(trim(space, strlen(space)), &status, reason);
			return status;
		}
	}
	for (header = zend_llist_get_first_ex(&headers->headers, &position); header;
			header = zend_llist_get_next_ex(&headers->headers, &position)) {
		if (header_is(header, ZEND_STRL("Status"))) {
			sapi_str value = trim(header->header + sizeof("Status"), header->header_len - sizeof("Status"));

			(void) parse_status(value, &status, reason);
			return status;
		}
		location = location || header_is(header, ZEND_STRL("Location"));
	}
	return status == 200 && location ? 302 : status;
}

/* Lines that the web server in front of php-fpm keeps to itself. */
static bool is_dropped(const sapi_header_struct *header, int status)
{
	if (header_is(header, ZEND_STRL("Content-Type"))) {
		size_t name_len = sizeof("Content-Type");

		return status == 304 || trim(header->header + name_len, header->header_len - name_len).len == 0;
	}
	return header_is(header, ZEND_STRL("Status")) || !memchr(header->header, ':', header->header_len);
}

static bool can_send_headers(void)
{
	return !SG(request_info).no_headers && hearth.phase == PHASE_REQUEST && !hearth.finished && !hearth.headers_sent;
}

/* False: the client is gone. */
static bool send_head(sapi_headers_struct *headers, int status, sapi_str reason)
{
	size_t count = 0;
	bool sent;
	sapi_str *lines;
	zend_llist_position position;
	sapi_header_struct *header;
	ALLOCA_FLAG(use_heap)

	lines = do_alloca((zend_llist_count(&headers->headers) + 1) * sizeof(sapi_str), use_heap);
	for (header = zend_llist_get_first_ex(&headers->headers, &position); header;
			header = zend_llist_get_next_ex(&headers->headers, &position)) {
		if (is_dropped(header, status)) {
			continue;
		}
		lines[count].bytes = header->header;
		lines[count].len = header->header_len;
		count++;
	}
	sent = hearth.host->send_headers(hearth.exchange, status, reason, lines, count);
	free_alloca(lines, use_heap);
	return sent;
}

void hearth_send_interim(int status)
{
	sapi_str no_reason = { "", 0 };

	if (can_send_headers() && !send_head(&SG(sapi_headers), status, no_reason)) {
		hearth_client_gone();
	}
}

int hearth_send_headers(sapi_headers_struct *headers)
{
	sapi_str reason;
	char digits[MAX_LENGTH_OF_LONG];
	int status;

	if (!can_send_headers()) {
		return SAPI_HEADER_SENT_SUCCESSFULLY;
	}
	status = response_status(headers, &reason);
	if (status < 200 || status > 999) {
		reason.len = slprintf(digits, sizeof(digits), "%d", status);
		reason.bytes = digits;
		status = SAPI_NO_STATUS;
	}
	hearth.headers_sent = true;
	/* Whoever sends a body hears of it then. */
	(void) send_head(headers, status, reason);
	return SAPI_HEADER_SENT_SUCCESSFULLY;
}
