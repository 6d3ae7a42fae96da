/*
 * Why a worker script has ended, if nobody has said so. A framework handles
 * what is thrown while it boots: it prints a page that nobody asked for, and
 * its script runs to the end as if all were well. Then the last exception is
 * what there is to say: one that no frame catches before one that is caught,
 * which may be the daily business of a library.
 *
 * Runs in: zygote. Called by: sapi.c, request.c.
 */
#include "context.h"

#include <string.h>

#include <Zend/zend_exceptions.h>

static void (*next_throw_hook)(zend_object *exception);
/* Empty: none was thrown. It is told of when the memory of the script's request is gone. */
static char thrown[1024];
static bool thrown_is_caught;

static const char *text_of(zend_class_entry *base, zend_object *exception, zend_known_string_id name)
{
	zval rv;
	zval *value = zend_read_property_ex(base, exception, ZSTR_KNOWN(name), true, &rv);

	ZVAL_DEREF(value);
	return Z_TYPE_P(value) == IS_STRING ? Z_STRVAL_P(value) : "";
}

static zend_long line_of(zend_class_entry *base, zend_object *exception)
{
	zval rv;
	zval *value = zend_read_property_ex(base, exception, ZSTR_KNOWN(ZEND_STR_LINE), true, &rv);

	ZVAL_DEREF(value);
	return Z_TYPE_P(value) == IS_LONG ? Z_LVAL_P(value) : 0;
}

/* Whether a catch clause of the frame takes the exception; the clauses of a "try" are linked as Zend/zend_vm_def.h ZEND_CATCH (8.2) follows them. */
static bool frame_catches(const zend_execute_data *frame, const zend_object *exception)
{
	const zend_op_array *code = &frame->func->op_array;
	uint32_t at = (uint32_t) (frame->opline - code->opcodes);

	for (int i = 0; i < code->last_try_catch && code->try_catch_array[i].try_op <= at; i++) {
		const zend_op *clause = code->opcodes + code->try_catch_array[i].catch_op;

		if (at >= code->try_catch_array[i].catch_op) {
			continue;
		}
		while (clause->opcode == ZEND_CATCH) {
			zval *name = RT_CONSTANT(clause, clause->op1);
			zend_class_entry *caught = zend_lookup_class_ex(Z_STR_P(name), Z_STR_P(name + 1), ZEND_FETCH_CLASS_NO_AUTOLOAD);

			if (caught && instanceof_function(exception->ce, caught)) {
				return true;
			}
			if (clause->extended_value & ZEND_LAST_CATCH) {
				break;
			}
			clause = OP_JMP_ADDR(clause, clause->op2);
		}
	}
	return false;
}

static bool is_caught(const zend_object *exception)
{
	const zend_execute_data *frame = EG(current_execute_data);

	while (frame && !(frame->func && ZEND_USER_CODE(frame->func->type) && frame_catches(frame, exception))) {
		frame = frame->prev_execute_data;
	}
	return frame != NULL;
}

static void note_thrown(zend_object *exception)
{
	if (exception && hearth.phase == PHASE_BOOT && instanceof_function(exception->ce, zend_ce_throwable)) {
		zend_class_entry *base = instanceof_function(exception->ce, zend_ce_error) ? zend_ce_error : zend_ce_exception;
		bool caught = is_caught(exception);

		/* What a handler throws and catches says less than what it handles. */
		if (!caught || thrown_is_caught || !thrown[0]) {
			thrown_is_caught = caught;
			snprintf(thrown, sizeof(thrown), "last exception thrown%s: %s: %s in %s:" ZEND_LONG_FMT,
				caught ? " (the application caught it)" : "",
				ZSTR_VAL(exception->ce->name), text_of(base, exception, ZEND_STR_MESSAGE),
				text_of(base, exception, ZEND_STR_FILE), line_of(base, exception));
		}
	}
	if (next_throw_hook) {
		next_throw_hook(exception);
	}
}

/* Symfony's own runtime before 7.4 answers one request, and calls exit(). */
static bool ran_symfonys_runtime(void)
{
	return zend_hash_str_exists(EG(class_table), ZEND_STRL("symfony\\component\\runtime\\symfonyruntime"))
		&& !zend_hash_str_exists(EG(class_table), ZEND_STRL("hearth\\bridge\\symfony\\runtime"));
}

void hearth_thrown_startup(void)
{
	next_throw_hook = zend_throw_exception_hook;
	zend_throw_exception_hook = note_thrown;
}

void hearth_thrown_forget(void)
{
	thrown[0] = '\0';
}

void hearth_thrown_report(void)
{
	bool unexplained = hearth.ended == SAPI_END_RETURNED || hearth.ended == SAPI_END_EXIT;

	if (hearth.phase != PHASE_BOOT || !unexplained) {
		return;
	}
	if ((!thrown[0] || thrown_is_caught) && ran_symfonys_runtime()) {
		hearth_log(LOG_ERR, ZEND_STRL("the script runs Symfony's own Runtime, which answers one request and ends; set "
			"APP_RUNTIME = 'Hearth\\Bridge\\Symfony\\Runtime' in [pool.web.env], or install symfony/runtime 7.4 or later"));
	} else if (thrown[0]) {
		hearth_log(LOG_ERR, thrown, strlen(thrown));
	}
}
