/*
 * Where the values are that outlive a request of a resident script: globals, statics, and the properties of objects,
 * which are looked at one by one, without following what they refer to. See leaks.c.
 *
 * Runs in: worker, zygote. Called by: leaks.c.
 */
#include "leaks.h"

#include <string.h>

#include <Zend/zend_closures.h>

static void see_globals(leak_scan *scan)
{
	zend_string *name;
	zval *value, nothing;

	ZVAL_NULL(&nothing);
	ZEND_HASH_FOREACH_STR_KEY_VAL_IND(&EG(symbol_table), name, value) {
		leak_owner owner = { SAPI_LEAK_GLOBAL, NULL, NULL, name ? ZSTR_VAL(name) : "", name ? ZSTR_LEN(name) : 0 };

		/* The superglobals are the request's. */
		if (name && !zend_hash_exists(CG(auto_globals), name)) {
			leak_see(scan, &owner, leak_mix(leak_hash_string(name), SAPI_LEAK_GLOBAL), value, &nothing);
		}
	} ZEND_HASH_FOREACH_END();
}

static void see_function(leak_scan *scan, const zend_function *function, zend_class_entry *scope, uint64_t key)
{
	HashTable *initial, *values;
	zend_string *name;
	zval *value, nothing;

	if (function->type != ZEND_USER_FUNCTION || !function->op_array.static_variables) {
		return;
	}
	initial = function->op_array.static_variables;
	values = ZEND_MAP_PTR_GET(function->op_array.static_variables_ptr);
	if (!values) {
		return;
	}
	ZVAL_NULL(&nothing);
	ZEND_HASH_FOREACH_STR_KEY_VAL_IND(values, name, value) {
		leak_owner owner = { SAPI_LEAK_FUNCTION_STATIC, scope, function, ZSTR_VAL(name), ZSTR_LEN(name) };
		zval *first = zend_hash_find_ind(initial, name);

		leak_see(scan, &owner, leak_mix(key, leak_hash_string(name)), value, first ? first : &nothing);
	} ZEND_HASH_FOREACH_END();
}

static void see_class(leak_scan *scan, zend_class_entry *class_entry)
{
	zval *members = class_entry->default_static_members_count ? CE_STATIC_MEMBERS(class_entry) : NULL;
	zend_function *function;
	zend_property_info *property;
	zend_string *name;

	ZEND_HASH_FOREACH_PTR(&class_entry->function_table, function) {
		/* An inherited method shares its statics with its parent's. */
		if (function->common.scope == class_entry) {
			see_function(scan, function, class_entry, (uintptr_t) function);
		}
	} ZEND_HASH_FOREACH_END();
	if (!members) {
		return;
	}
	ZEND_HASH_FOREACH_STR_KEY_PTR(&class_entry->properties_info, name, property) {
		leak_owner owner = { SAPI_LEAK_STATIC, class_entry, NULL, ZSTR_VAL(name), ZSTR_LEN(name) };
		zval *value, *initial;

		if ((property->flags & ZEND_ACC_STATIC) && property->ce == class_entry) {
			value = &members[property->offset];
			initial = &class_entry->default_static_members_table[property->offset];
			ZVAL_DEINDIRECT(value);
			ZVAL_DEINDIRECT(initial);
			leak_see(scan, &owner, leak_mix((uintptr_t) property, SAPI_LEAK_STATIC), value, initial);
		}
	} ZEND_HASH_FOREACH_END();
}

static void see_declared(leak_scan *scan)
{
	zend_class_entry *class_entry;
	zend_function *function;
	zend_string *name;
	zval *entry;

	ZEND_HASH_FOREACH_PTR(CG(function_table), function) {
		see_function(scan, function, NULL, (uintptr_t) function);
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_STR_KEY_VAL(CG(class_table), name, entry) {
		class_entry = Z_PTR_P(entry);
		/* An alias is another name for the same class. */
		if (name && class_entry->type == ZEND_USER_CLASS && (class_entry->ce_flags & ZEND_ACC_LINKED)
				&& zend_string_equals_ci(name, class_entry->name)) {
			see_class(scan, class_entry);
		}
	} ZEND_HASH_FOREACH_END();
}

static void see_dynamic_properties(leak_scan *scan, zend_object *object, uint64_t key, bool known)
{
	uint32_t declared = (uint32_t) object->ce->default_properties_count;
	uint32_t count = object->properties ? zend_hash_num_elements(object->properties) : 0;
	leak_owner owner = { SAPI_LEAK_PROPERTY, object->ce, NULL, ZEND_STRL("(dynamic properties)") };
	const leak_look *before;
	leak_record *record;
	char change[LEAK_TEXT];

	if (count <= declared) {
		return;
	}
	key = leak_mix(key, UINT32_MAX);
	before = leak_look_before(scan, key);
	record = leak_touch(scan, key);
	if (record) {
		record->look.size = count;
	}
	if (scan->before && known && count > (before ? before->size : declared)) {
		snprintf(change, sizeof(change), "%u → %u", (before ? before->size : declared) - declared, count - declared);
		leak_tell_owner(&owner, change);
	}
}

/* An object that was there before the request: its declared properties, and how many it has besides. */
static void see_properties(leak_scan *scan, zend_object *object, uint64_t key)
{
	zend_class_entry *class_entry = object->ce;
	uint32_t i, count = (uint32_t) class_entry->default_properties_count;
	bool known = !scan->before || leak_look_before(scan, key);

	(void) leak_touch(scan, key);
	for (i = 0; i < count && class_entry->properties_info_table; i++) {
		const zend_property_info *property = class_entry->properties_info_table[i];
		uint64_t slot = leak_mix(key, i + 1);
		leak_owner owner = { SAPI_LEAK_PROPERTY, class_entry, NULL, "", 0 };
		leak_record *record;

		if (!property) {
			continue;
		}
		if (!known) {
			record = leak_touch(scan, slot);
			if (record) {
				record->look = leak_look_at(scan, &object->properties_table[i]);
			}
			continue;
		}
		owner.class_entry = property->ce;
		owner.name = zend_get_unmangled_property_name(property->name);
		owner.name_len = strlen(owner.name);
		leak_see(scan, &owner, slot, &object->properties_table[i], NULL);
	}
	see_dynamic_properties(scan, object, key, known);
}

static void see_objects(leak_scan *scan)
{
	zend_objects_store *store = &EG(objects_store);
	uint32_t i;

	for (i = 1; i < store->top && !scan->full; i++) {
		zend_object *object = store->object_buckets[i];
		leak_record *count;
		uint64_t key;

		if (!IS_OBJ_VALID(object) || (OBJ_FLAGS(object) & IS_OBJ_FREE_CALLED)) {
			continue;
		}
		key = leak_mix(leak_mix((uintptr_t) object->ce, SAPI_LEAK_PROPERTY), i);
		count = leak_touch(scan, leak_mix((uintptr_t) object->ce, SAPI_LEAK_OBJECTS));
		if (count) {
			count->look.class_entry = object->ce;
			count->look.size++;
		}
		if (object->ce == zend_ce_closure) {
			const zend_function *function = zend_get_closure_method_def(object);

			see_function(scan, function, NULL, leak_mix(key, (uintptr_t) function->op_array.opcodes));
		} else {
			see_properties(scan, object, key);
		}
	}
}

/* Classes of which there are more objects than before. */
static void tell_objects(const leak_scan *scan)
{
	size_t i;

	for (i = 0; scan->before && i < scan->now->capacity; i++) {
		const leak_record *record = &scan->now->records[i];
		const zend_class_entry *class_entry = record->look.class_entry;
		const leak_look *before;
		uint32_t count;
		char change[LEAK_TEXT];

		if (!class_entry || record->key != leak_mix((uintptr_t) class_entry, SAPI_LEAK_OBJECTS)) {
			continue;
		}
		before = leak_look_before(scan, record->key);
		count = before ? before->size : 0;
		if (record->look.size > count) {
			leak_owner owner = { SAPI_LEAK_OBJECTS, class_entry, NULL, ZSTR_VAL(class_entry->name), ZSTR_LEN(class_entry->name) };

			snprintf(change, sizeof(change), "%u → %u", count, record->look.size);
			leak_tell_owner(&owner, change);
		}
	}
}

void leak_see_values(leak_scan *scan)
{
	see_globals(scan);
	see_declared(scan);
	see_objects(scan);
	tell_objects(scan);
}
