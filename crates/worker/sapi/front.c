/*
 * A front controller that knows nothing of Hearth: it runs as it is, and waits
 * where it asks for its request. Symfony's HttpFoundation lets a factory make
 * the request of Request::createFromGlobals(). Once a script that boots has
 * loaded that class, a factory is set that calls hearth_request() first. It is
 * PHP (php/src/Bridge/Symfony/FrontController.php), compiled only then.
 *
 * A script that calls hearth_handle_request() or hearth_request() gets no such
 * factory, or loses it before its first request.
 *
 * Runs in: zygote. Called by: request.c, once.c, PHP.
 */
#include "context.h"

#include <Zend/zend_closures.h>
#include <Zend/zend_exceptions.h>
#include <Zend/zend_interfaces.h>

#define REQUEST "symfony\\component\\httpfoundation\\request"
#define FRONT_CONTROLLER "hearth\\bridge\\symfony\\frontcontroller"

/* What the host has of PHP; none: scripts have to call a function of Hearth's. */
static const sapi_source *sources;
static size_t source_count;
static zend_class_entry *(*next_autoload)(zend_string *name, zend_string *lc_name);
/* The script that boots has the factory. */
static bool kept;
/* It has waited in it. */
static bool waits;

static void call(const char *method, size_t len, int count, zval *first, zval *second)
{
	zend_class_entry *class = zend_hash_str_find_ptr(EG(class_table), ZEND_STRL(FRONT_CONTROLLER));

	if (class) {
		zend_call_method(NULL, class, NULL, method, len, NULL, count, first, second);
	}
}

/* Classes that the application has of its own, as it has those of an installed package, are left alone. */
static void compile_sources(void)
{
	size_t i;

	for (i = 0; i < source_count && !EG(exception); i++) {
		const sapi_source *source = &sources[i];

		if (!zend_hash_str_exists(EG(class_table), source->class_name, strlen(source->class_name))) {
			zend_eval_stringl(source->code, strlen(source->code), NULL, source->name);
		}
	}
}

/* The class that a request is asked of: Request, or one that extends it. */
static ZEND_NAMED_FUNCTION(called_class)
{
	zend_execute_data *frame;

	for (frame = EX(prev_execute_data); frame; frame = frame->prev_execute_data) {
		const zend_class_entry *scope = frame->func ? frame->func->common.scope : NULL;

		if (scope && zend_string_equals_literal_ci(scope->name, REQUEST)) {
			const zend_class_entry *class = zend_get_called_scope(frame);

			RETURN_STR_COPY((class ? class : scope)->name);
		}
	}
	RETURN_EMPTY_STRING();
}

/* A closure of called_class(), declared as PHP's function is that tells the same of its own caller; null where that is disabled. */
static void make_called_class(zval *closure)
{
	const zend_function *like = zend_hash_str_find_ptr(EG(function_table), ZEND_STRL("get_called_class"));
	zend_function function;

	ZVAL_NULL(closure);
	if (like && like->type == ZEND_INTERNAL_FUNCTION) {
		function.internal_function = like->internal_function;
		function.internal_function.handler = called_class;
		zend_create_closure(closure, &function, NULL, NULL, NULL);
	}
}

static void keep(void)
{
	kept = true;
	compile_sources();
	if (!EG(exception)) {
		zval wait, called;

		ZVAL_STRING(&wait, "hearth_request");
		make_called_class(&called);
		call(ZEND_STRL("keep"), 2, &wait, &called);
		zval_ptr_dtor(&called);
		zval_ptr_dtor(&wait);
	}
}

static zend_class_entry *autoload(zend_string *name, zend_string *lc_name)
{
	zend_class_entry *class = next_autoload(name, lc_name);

	if (class && !kept && !EG(exception) && (class->ce_flags & ZEND_ACC_LINKED)
			&& zend_string_equals_literal(lc_name, REQUEST)) {
		keep();
	}
	return EG(exception) ? NULL : class;
}

void hearth_keep_front_controller(void)
{
	kept = waits = false;
	if (source_count == 0) {
		return;
	}
	if (zend_autoload != autoload) {
		next_autoload = zend_autoload;
		zend_autoload = autoload;
	}
	/* Preloaded by OPcache. */
	if (zend_hash_str_exists(EG(class_table), ZEND_STRL(REQUEST))) {
		keep();
	}
}

static void disarm(void)
{
	if (zend_autoload == autoload) {
		zend_autoload = next_autoload;
	}
}

void hearth_forget_front_controller(void)
{
	disarm();
	if (kept && !EG(exception)) {
		call(ZEND_STRL("leave"), 0, NULL, NULL);
	}
	kept = false;
}

void hearth_front_controller_waits(void)
{
	const zend_execute_data *caller = EG(current_execute_data) ? EG(current_execute_data)->prev_execute_data : NULL;

	disarm();
	waits = caller && caller->func && hearth_is_front_of_request(caller->func);
	if (!waits) {
		hearth_forget_front_controller();
	}
}

void hearth_front_controller_ends(void)
{
	disarm();
}

bool hearth_is_front_of_request(const zend_function *function)
{
	const zend_class_entry *class = function->common.scope;

	return kept && class && (zend_string_equals_literal_ci(class->name, REQUEST)
		|| zend_string_equals_literal_ci(class->name, FRONT_CONTROLLER));
}

bool sapi_is_front_controller(void)
{
	return waits;
}

void sapi_keep_front_controllers(const sapi_source *list, size_t count)
{
	sources = list;
	source_count = count;
}
