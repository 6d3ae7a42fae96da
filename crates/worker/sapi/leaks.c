/*
 * What a request of a resident script leaves behind, by name and place, and how much memory. Where values are is in
 * leaks_values.c; settings, handlers, resources and the process are in leaks_process.c.
 *
 * For requests that the host chose: a look around before the request and one after it. For a warm-up: one before its
 * first request and one after its last. Values are compared by a fingerprint of limited depth, so a change deep in an
 * array may go unseen; what is told has changed. No value ever leaves this file, only types, sizes and names.
 *
 * A look reads and calls no code of the application, but for destructors of garbage and what spl_autoload_functions()
 * does. It keeps its tables in process memory (malloc): nothing of it is in PHP's heap, whose growth it measures. A
 * request that the host did not choose costs one comparison.
 *
 * Runs in: worker, zygote. Called by: request.c, sapi.c.
 */
#include "leaks.h"

#include <stdlib.h>
#include <string.h>

#include <Zend/zend_exceptions.h>
#include <Zend/zend_gc.h>

/* Elements of an array that are looked at, and arrays in arrays. Of larger ones only the size counts. */
#define ELEMENTS 64
#define DEPTH    3
/* Elements of all arrays in one look. */
#define BUDGET   200000
/* Things in one look. */
#define RECORDS  ((size_t) 1 << 18)
/* Bytes of a string that are compared at each end. */
#define STRING_END 512

/* What is kept from one look to the next. Process memory. */
struct hearth_leaks {
	leak_state  states[2];
	leak_state *latest;
	leak_state *next;         /* takes its place */
	sapi_leaks  watching;     /* the request under way */
	bool        fresh;        /* `latest` is from the end of the request before */
};

/* {{{ Tables */

uint64_t leak_mix(uint64_t hash, uint64_t value)
{
	hash ^= value;
	hash *= 0x9e3779b97f4a7c15ull;
	return hash ^ (hash >> 29);
}

uint64_t leak_hash(const char *bytes, size_t len)
{
	return leak_mix(zend_inline_hash_func(bytes, len), len);
}

static leak_record *find(const leak_state *state, uint64_t key)
{
	size_t mask = state->capacity - 1;
	size_t at = (size_t) leak_mix(key, 0) & mask;

	if (state->capacity == 0) {
		return NULL;
	}
	while (state->records[at].key != 0 && state->records[at].key != key) {
		at = (at + 1) & mask;
	}
	return &state->records[at];
}

const leak_look *leak_look_before(const leak_scan *scan, uint64_t key)
{
	const leak_record *record = scan->before ? find(scan->before, key) : NULL;

	return record && record->key == key ? &record->look : NULL;
}

static bool grow(leak_state *state)
{
	leak_state larger = *state;
	size_t i;

	larger.capacity = state->capacity ? state->capacity * 2 : 4096;
	larger.records = calloc(larger.capacity, sizeof(leak_record));
	if (!larger.records) {
		return false;
	}
	for (i = 0; i < state->capacity; i++) {
		if (state->records[i].key != 0) {
			*find(&larger, state->records[i].key) = state->records[i];
		}
	}
	free(state->records);
	*state = larger;
	return true;
}

/* The record of `key`, made if there is none; NULL if there are too many. */
leak_record *leak_touch(leak_scan *scan, uint64_t key)
{
	leak_state *state = scan->now;
	leak_record *record;

	if (state->used * 2 >= state->capacity && (state->used >= RECORDS || !grow(state))) {
		scan->full = true;
		return NULL;
	}
	key = key ? key : 1;
	record = find(state, key);
	if (record->key == 0) {
		record->key = key;
		state->used++;
	}
	return record;
}

static void clear(leak_state *state)
{
	if (state->used > 0) {
		memset(state->records, 0, state->capacity * sizeof(leak_record));
	}
	state->used = 0;
}
/* }}} */

/* {{{ Values */

static uint64_t hash_value(leak_scan *scan, zval *value, int depth);

uint64_t leak_hash_string(const zend_string *string)
{
	size_t len = ZSTR_LEN(string);
	size_t end = MIN(len, STRING_END);
	uint64_t hash = leak_mix(leak_hash(ZSTR_VAL(string), end), len);

	return len > end ? leak_mix(hash * 31, leak_hash(ZSTR_VAL(string) + len - end, end)) : hash;
}

static uint64_t hash_array(leak_scan *scan, HashTable *array, int depth)
{
	uint64_t hash = leak_mix(IS_ARRAY, zend_hash_num_elements(array));
	zend_ulong index;
	zend_string *name;
	zval *element;

	/* What never changes is told apart by where it is. */
	if (GC_FLAGS(array) & GC_IMMUTABLE) {
		return leak_mix(hash, (uintptr_t) array);
	}
	hash = leak_mix(hash, (uint64_t) array->nNextFreeElement);
	if (depth == 0 || zend_hash_num_elements(array) > ELEMENTS || scan->budget < ELEMENTS) {
		return hash;
	}
	scan->budget -= zend_hash_num_elements(array);
	ZEND_HASH_FOREACH_KEY_VAL_IND(array, index, name, element) {
		hash = leak_mix(hash, name ? leak_hash_string(name) : (uint64_t) index);
		hash = leak_mix(hash, hash_value(scan, element, depth - 1));
	} ZEND_HASH_FOREACH_END();
	return hash;
}

static uint64_t hash_value(leak_scan *scan, zval *value, int depth)
{
	uint64_t bits;

	ZVAL_DEREF(value);
	switch (Z_TYPE_P(value)) {
		case IS_UNDEF:
			return IS_NULL;
		case IS_LONG:
			return leak_mix(IS_LONG, (uint64_t) Z_LVAL_P(value));
		case IS_DOUBLE:
			memcpy(&bits, &Z_DVAL_P(value), sizeof(bits));
			return leak_mix(IS_DOUBLE, bits);
		case IS_STRING:
			return leak_mix(IS_STRING, leak_hash_string(Z_STR_P(value)));
		case IS_ARRAY:
			return hash_array(scan, Z_ARRVAL_P(value), depth);
		case IS_OBJECT:
			return leak_mix(leak_mix(IS_OBJECT, Z_OBJ_HANDLE_P(value)), (uintptr_t) Z_OBJCE_P(value));
		case IS_RESOURCE:
			return leak_mix(IS_RESOURCE, (uint64_t) Z_RES_HANDLE_P(value));
		default:
			return Z_TYPE_P(value);
	}
}

leak_look leak_look_at(leak_scan *scan, zval *value)
{
	leak_look look = {0};

	ZVAL_DEREF(value);
	look.hash = hash_value(scan, value, DEPTH);
	look.type = Z_TYPE_P(value) == IS_UNDEF ? IS_NULL : Z_TYPE_P(value);
	if (look.type == IS_STRING) {
		look.size = (uint32_t) MIN(Z_STRLEN_P(value), UINT32_MAX);
	} else if (look.type == IS_ARRAY) {
		look.size = zend_hash_num_elements(Z_ARRVAL_P(value));
	} else if (look.type == IS_OBJECT) {
		look.class_entry = Z_OBJCE_P(value);
	}
	return look;
}
/* }}} */

/* {{{ Telling */

static void put_look(char *text, size_t room, const leak_look *look)
{
	const zend_class_entry *class_entry = look->class_entry;

	switch (look->type) {
		case IS_STRING:
			snprintf(text, room, "string(%u)", look->size);
			return;
		case IS_ARRAY:
			snprintf(text, room, "array(%u)", look->size);
			return;
		case IS_OBJECT:
			snprintf(text, room, "%.100s", ZSTR_VAL(class_entry->name));
			return;
		case IS_LONG:
			snprintf(text, room, "int");
			return;
		case IS_FALSE:
		case IS_TRUE:
			snprintf(text, room, look->type == IS_TRUE ? "true" : "false");
			return;
		default:
			snprintf(text, room, "%s", zend_get_type_by_const(look->type));
	}
}

static void put_change(char *text, size_t room, const leak_look *before, const leak_look *now)
{
	char from[LEAK_TEXT / 2 - 8], to[LEAK_TEXT / 2 - 8];

	put_look(from, sizeof(from), before);
	put_look(to, sizeof(to), now);
	if (strcmp(from, to) != 0) {
		snprintf(text, room, "%s → %s", from, to);
	} else if (now->type == IS_OBJECT) {
		snprintf(text, room, "another %s", to);
	} else {
		snprintf(text, room, "another %s value", to);
	}
}

void leak_tell(sapi_leak_kind kind, const char *name, const zend_string *file, uint32_t line, const char *change)
{
	char place[2 * LEAK_TEXT] = "";
	sapi_leak leak;

	if (file) {
		snprintf(place, sizeof(place), "%s:%u", ZSTR_VAL(file), line);
	}
	leak.kind = kind;
	leak.name.bytes = name;
	leak.name.len = strlen(name);
	leak.place.bytes = place;
	leak.place.len = strlen(place);
	leak.change.bytes = change;
	leak.change.len = strlen(change);
	leak.bytes = 0;
	hearth.host->leak(hearth.exchange, &leak);
}

void leak_tell_owner(const leak_owner *owner, const char *change)
{
	const zend_function *function = owner->function;
	const zend_class_entry *class_entry = owner->class_entry;
	const char *scope = class_entry ? ZSTR_VAL(class_entry->name) : "";
	const char *separator = class_entry ? "::" : "";
	char name[LEAK_TEXT];

	if (function && (function->common.fn_flags & ZEND_ACC_CLOSURE)) {
		snprintf(name, sizeof(name), "closure::$%.*s", (int) owner->name_len, owner->name);
	} else if (function) {
		const char *called = function->common.function_name ? ZSTR_VAL(function->common.function_name) : "main";

		snprintf(name, sizeof(name), "%s%s%s()::$%.*s", scope, separator, called, (int) owner->name_len, owner->name);
	} else if (owner->kind == SAPI_LEAK_PROPERTY) {
		snprintf(name, sizeof(name), "%s->%.*s", scope, (int) owner->name_len, owner->name);
	} else if (owner->kind == SAPI_LEAK_STATIC || owner->kind == SAPI_LEAK_GLOBAL) {
		snprintf(name, sizeof(name), "%s%s$%.*s", scope, separator, (int) owner->name_len, owner->name);
	} else {
		snprintf(name, sizeof(name), "%.*s", (int) owner->name_len, owner->name);
	}
	if (function && function->type == ZEND_USER_FUNCTION) {
		leak_tell(owner->kind, name, function->op_array.filename, function->op_array.line_start, change);
	} else if (class_entry && class_entry->type == ZEND_USER_CLASS) {
		leak_tell(owner->kind, name, class_entry->info.user.filename, class_entry->info.user.line_start, change);
	} else {
		leak_tell(owner->kind, name, NULL, 0, change);
	}
}

void leak_see(leak_scan *scan, const leak_owner *owner, uint64_t key, zval *value, zval *initial)
{
	leak_look look = leak_look_at(scan, value);
	leak_record *record = leak_touch(scan, key);
	const leak_look *before = leak_look_before(scan, key);
	leak_look first;
	char change[LEAK_TEXT];

	if (record) {
		record->look = look;
	}
	if (!scan->before) {
		return;
	}
	if (!before) {
		/* What a constant expression stands for is not known before it is evaluated. */
		if (!initial || Z_TYPE_P(initial) == IS_CONSTANT_AST) {
			return;
		}
		first = leak_look_at(scan, initial);
		before = &first;
	}
	if (before->hash != look.hash && before->type != IS_CONSTANT_AST) {
		if (owner->kind == SAPI_LEAK_ENVIRONMENT || owner->kind == SAPI_LEAK_SETTING) {
			snprintf(change, sizeof(change), before->type == IS_NULL ? "set" : "changed");
		} else {
			put_change(change, sizeof(change), before, &look);
		}
		leak_tell_owner(owner, change);
	}
}

void leak_see_count(leak_scan *scan, sapi_leak_kind kind, const char *name, zend_long count)
{
	uint64_t key = leak_mix(leak_hash(name, strlen(name)), kind);
	const leak_look *before = leak_look_before(scan, key);
	leak_record *record = leak_touch(scan, key);
	char change[LEAK_TEXT];

	if (record) {
		record->look.size = (uint32_t) count;
	}
	if (before && (zend_long) before->size < count) {
		snprintf(change, sizeof(change), "%u → " ZEND_LONG_FMT, before->size, count);
		leak_tell(kind, name, NULL, 0, change);
	}
}

bool leak_is_new(leak_scan *scan, uint64_t key)
{
	(void) leak_touch(scan, key);
	return scan->before && !leak_look_before(scan, key);
}
/* }}} */

/* {{{ A watched request */

/* Garbage is no leak. What its destructors throw is reported, as no frame of the application is there to catch it. */
static void collect_garbage(void)
{
	if (!gc_enabled()) {
		return;
	}
	zend_try {
		(void) gc_collect_cycles();
		if (EG(exception)) {
			zend_exception_error(EG(exception), E_WARNING);
		}
	} zend_end_try();
}

static void look_around(struct hearth_leaks *leaks, bool tell, bool values)
{
	leak_scan scan = { leaks->next, tell ? leaks->latest : NULL, false, BUDGET };

	clear(leaks->next);
	leak_see_process(&scan);
	if (values) {
		leak_see_values(&scan);
	}
	leaks->next = leaks->latest;
	leaks->latest = scan.now;
}

static struct hearth_leaks *start(void)
{
	struct hearth_leaks *leaks = calloc(1, sizeof(*leaks));

	if (leaks) {
		leaks->latest = &leaks->states[0];
		leaks->next = &leaks->states[1];
	}
	return leaks;
}

void hearth_leaks_before(void)
{
	sapi_leaks chosen = hearth.leaks_chosen;
	struct hearth_leaks *leaks;

	if (chosen == SAPI_LEAKS_NONE && !hearth.leaks) {
		return;
	}
	hearth.leaks_chosen = SAPI_LEAKS_NONE;
	hearth.leaks = leaks = hearth.leaks ? hearth.leaks : start();
	if (!leaks) {
		return;
	}
	leaks->watching = chosen;
	if (chosen == SAPI_LEAKS_NONE) {
		leaks->fresh = false;
		return;
	}
	if (!leaks->fresh) {
		collect_garbage();
		look_around(leaks, false, chosen == SAPI_LEAKS_ALL);
	}
	/* Last, so that what looking has cost does not count. */
	leaks->latest->memory = zend_memory_usage(false);
}

void hearth_leaks_after(void)
{
	struct hearth_leaks *leaks = hearth.leaks;
	sapi_leak leak = {0};

	if (!leaks || leaks->watching == SAPI_LEAKS_NONE) {
		return;
	}
	collect_garbage();
	leak.kind = SAPI_LEAK_MEMORY;
	if (leaks->watching == SAPI_LEAKS_ALL) {
		leak.bytes = (int64_t) zend_memory_usage(false) - (int64_t) leaks->latest->memory;
	}
	hearth.host->leak(hearth.exchange, &leak);
	look_around(leaks, true, leaks->watching == SAPI_LEAKS_ALL);
	leaks->fresh = leaks->watching == SAPI_LEAKS_ALL;
	leaks->watching = SAPI_LEAKS_NONE;
}

/* }}} */

/* {{{ A warm-up */

void hearth_leaks_remember(void)
{
	hearth.leaks = hearth.leaks ? hearth.leaks : start();
	if (hearth.leaks) {
		collect_garbage();
		look_around(hearth.leaks, false, true);
	}
}

void hearth_leaks_compare(void)
{
	struct hearth_leaks *leaks = hearth.leaks;

	if (!leaks) {
		return;
	}
	collect_garbage();
	look_around(leaks, true, true);
	/* Nothing of it shall be in the image. */
	hearth.leaks = NULL;
	free(leaks->states[0].records);
	free(leaks->states[1].records);
	free(leaks);
}
/* }}} */

/* {{{ The contract of sapi.h */

void sapi_find_leaks(sapi_leaks which)
{
	hearth.leaks_chosen = which;
}
/* }}} */
