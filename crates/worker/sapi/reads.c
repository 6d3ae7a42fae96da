/*
 * Which code reads a variable of the request while the application boots, when
 * there is no request. On demand each read is noted as it happens; that makes
 * PHP slower, so it is for `hearth check --image`. Otherwise the scripts that
 * have led to hearth_request() are looked through for reads in front of it.
 *
 * Runs in: zygote. Called by: once.c, PHP.
 */
#include "context.h"

#include <string.h>

#include <Zend/zend_vm.h>

#define READ_MAX 512
/* Different ones that are told. */
#define READS_MAX 50

static const char *const of_requests[] = { "_GET", "_POST", "_COOKIE", "_REQUEST", "_FILES" };
static const uint8_t fetches[] = { ZEND_FETCH_R, ZEND_FETCH_IS, ZEND_FETCH_FUNC_ARG };

/* The ones that were told. Process memory. */
static HashTable told;

/* The key of `$_SERVER[key]`, if the instruction behind its fetch looks for one; NULL: for another, or all of it is read. */
static const zend_string *key_behind(const zend_op *fetch)
{
	const zend_op *dim = fetch + 1;
	const zval *key;

	switch (dim->opcode) {
		case ZEND_FETCH_DIM_R:
		case ZEND_FETCH_DIM_IS:
		case ZEND_FETCH_DIM_FUNC_ARG:
		case ZEND_ISSET_ISEMPTY_DIM_OBJ:
			break;
		default:
			return NULL;
	}
	if (dim->op1_type != fetch->result_type || dim->op1.var != fetch->result.var || dim->op2_type != IS_CONST) {
		return NULL;
	}
	key = RT_CONSTANT(dim, dim->op2);
	return Z_TYPE_P(key) == IS_STRING ? Z_STR_P(key) : NULL;
}

/* Writes "$_GET" or "$_SERVER['HTTP_HOST']"; false: the instruction reads no variable of a request. */
static bool name_read(const zend_op *op, char *name)
{
	const zval *variable;
	const zend_string *key;
	size_t i;

	for (i = 0; i < sizeof(fetches) && op->opcode != fetches[i]; i++) {
	}
	if (i == sizeof(fetches) || op->op1_type != IS_CONST || (op->extended_value & ZEND_FETCH_TYPE_MASK) != ZEND_FETCH_GLOBAL) {
		return false;
	}
	variable = RT_CONSTANT(op, op->op1);
	if (Z_TYPE_P(variable) != IS_STRING) {
		return false;
	}
	for (i = 0; i < sizeof(of_requests) / sizeof(of_requests[0]); i++) {
		if (strcmp(Z_STRVAL_P(variable), of_requests[i]) == 0) {
			snprintf(name, READ_MAX, "$%s", of_requests[i]);
			return true;
		}
	}
	key = zend_string_equals_literal(Z_STR_P(variable), "_SERVER") ? key_behind(op) : NULL;
	/* The boot has a script, too. */
	if (!key || !hearth_is_of_request(key) || zend_string_equals_literal(key, "SCRIPT_FILENAME")) {
		return false;
	}
	snprintf(name, READ_MAX, "$_SERVER['%s']", ZSTR_VAL(key));
	return true;
}

static void tell(const zend_op_array *code, const zend_op *op, const char *name)
{
	char *text;
	size_t len;

	if (zend_hash_num_elements(&told) >= READS_MAX) {
		return;
	}
	len = spprintf(&text, 0, "%s:%u reads %s while the application boots: there is no request yet", ZSTR_VAL(code->filename),
		op->lineno, name);
	if (zend_hash_str_add_empty_element(&told, text, len)) {
		hearth_log(LOG_WARNING, text, len);
	}
	efree(text);
}

static int note_read(zend_execute_data *frame)
{
	char name[READ_MAX];

	if (hearth.phase == PHASE_BOOT && name_read(frame->opline, name) && !hearth_is_front_of_request(frame->func)) {
		tell(&frame->func->op_array, frame->opline, name);
	}
	return ZEND_USER_OPCODE_DISPATCH;
}

void hearth_tell_reads_above(void)
{
	const zend_execute_data *frame;
	char name[READ_MAX];

	/* The script that serves is told of. */
	if (hearth.warming) {
		return;
	}
	for (frame = EG(current_execute_data); frame; frame = frame->prev_execute_data) {
		const zend_op *op;

		if (!frame->func || !ZEND_USER_CODE(frame->func->type) || hearth_is_front_of_request(frame->func)) {
			continue;
		}
		for (op = frame->func->op_array.opcodes; op < frame->opline; op++) {
			if (name_read(op, name)) {
				tell(&frame->func->op_array, op, name);
			}
		}
	}
}

void hearth_reads_startup(void)
{
	zend_hash_init(&told, 8, NULL, NULL, 1);
}

/* What OPcache keeps in files would ask other processes for the handlers of this one. */
void sapi_tell_reads(void)
{
	const char *files = zend_ini_string((char *) ZEND_STRL("opcache.file_cache"), 0);
	size_t i;

	if (files && files[0]) {
		return;
	}
	for (i = 0; i < sizeof(fetches); i++) {
		zend_set_user_opcode_handler(fetches[i], note_read);
	}
}
