/* This is a generated file, edit the .stub.php file instead.
 * Stub hash: f83232b4ae58da1db60181c019063216e1672069 */

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_hearth_handle_request, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, handler, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_hearth_request, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

#define arginfo_frankenphp_handle_request arginfo_hearth_handle_request

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_fastcgi_finish_request, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

#define arginfo_frankenphp_finish_request arginfo_fastcgi_finish_request

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers_send, 0, 0, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_getallheaders, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_hearth_log, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, message, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, level, IS_LONG, 0, "HEARTH_LOG_LEVEL_INFO")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, context, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_frankenphp_log, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, message, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, level, IS_LONG, 0, "FRANKENPHP_LOG_LEVEL_INFO")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, context, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

#define arginfo_apache_request_headers arginfo_getallheaders

#define arginfo_frankenphp_request_headers arginfo_getallheaders

#define arginfo_apache_response_headers arginfo_getallheaders

#define arginfo_frankenphp_response_headers arginfo_getallheaders


ZEND_FUNCTION(hearth_handle_request);
ZEND_FUNCTION(hearth_request);
ZEND_FUNCTION(fastcgi_finish_request);
ZEND_FUNCTION(headers_send);
ZEND_FUNCTION(getallheaders);
ZEND_FUNCTION(hearth_log);
ZEND_FUNCTION(apache_response_headers);


static const zend_function_entry ext_functions[] = {
	ZEND_FE(hearth_handle_request, arginfo_hearth_handle_request)
	ZEND_FE(hearth_request, arginfo_hearth_request)
	ZEND_FALIAS(frankenphp_handle_request, hearth_handle_request, arginfo_frankenphp_handle_request)
	ZEND_FE(fastcgi_finish_request, arginfo_fastcgi_finish_request)
	ZEND_FALIAS(frankenphp_finish_request, fastcgi_finish_request, arginfo_frankenphp_finish_request)
	ZEND_FE(headers_send, arginfo_headers_send)
	ZEND_FE(getallheaders, arginfo_getallheaders)
	ZEND_FE(hearth_log, arginfo_hearth_log)
	ZEND_FALIAS(frankenphp_log, hearth_log, arginfo_frankenphp_log)
	ZEND_FALIAS(apache_request_headers, getallheaders, arginfo_apache_request_headers)
	ZEND_FALIAS(frankenphp_request_headers, getallheaders, arginfo_frankenphp_request_headers)
	ZEND_FE(apache_response_headers, arginfo_apache_response_headers)
	ZEND_FALIAS(frankenphp_response_headers, apache_response_headers, arginfo_frankenphp_response_headers)
	ZEND_FE_END
};
