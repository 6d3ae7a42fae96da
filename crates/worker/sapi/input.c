/*
 * php://input around a request, and streams on it that a script keeps.
 *
 * Runs in: zygote | worker. Called by: request.c, once.c.
 */
#include "context.h"

#include <string.h>

#include <Zend/zend_list.h>

static bool is_input(const zend_resource *resource)
{
	return resource->type == php_file_le_stream() && strcmp(((php_stream *) resource->ptr)->ops->label, "Input") == 0;
}

/*
 * php://input of a request ends with it. The streams opened on it share one body and do not own it, so they are
 * closed first; a script that kept one finds it closed.
 */
void hearth_close_input(void)
{
	php_stream *body = SG(request_info).request_body;
	zend_resource *resource;

	SG(post_read) = 1;
	if (!body) {
		return;
	}
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (is_input(resource) && resource->ptr != body) {
			zend_list_close(resource);
		}
	} ZEND_HASH_FOREACH_END();
	SG(request_info).request_body = NULL;
	php_stream_free(body, PHP_STREAM_FREE_CLOSE);
}

void hearth_keep_input(void)
{
	zend_resource *resource;

	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (is_input(resource)) {
			hearth.boot_input = SG(request_info).request_body;
			SG(post_read) = 1;
			return;
		}
	} ZEND_HASH_FOREACH_END();
	hearth_close_input();
}

/* PHP reads the body of a form before the script asks for it, into a stream of its own; any other one when it is read. */
void hearth_give_input(void)
{
	php_stream *body = SG(request_info).request_body;
	zend_resource *resource;

	if (!hearth.boot_input) {
		return;
	}
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (is_input(resource)) {
			/* The boot may have found nothing in it. */
			((php_stream *) resource->ptr)->eof = 0;
		}
	} ZEND_HASH_FOREACH_END();
	if (body) {
		php_stream_rewind(body);
		php_stream_copy_to_stream_ex(body, hearth.boot_input, PHP_STREAM_COPY_ALL, NULL);
		php_stream_rewind(body);
	} else {
		SG(request_info).request_body = hearth.boot_input;
	}
}
