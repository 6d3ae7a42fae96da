/*
 * What PHP's engine has cached in one request, carried over to the next one
 * of this process: which classes were loaded, and the run-time caches of the
 * functions that OPcache keeps in shared memory. Nothing of the script's state
 * is in them once they are scrubbed; each is what the engine would find out
 * again.
 *
 * A run-time cache is an array of words that a function's opcodes use to
 * remember what a name meant: classes, functions, properties, constants. In
 * OPcache's memory it is the same for all requests, as long as the name
 * means the same. So a word is kept only if it points to memory that outlives
 * the request, and a cache only if everything that it names is there again.
 *
 * Runs in: zygote. Called by: warm.c.
 */
#include "context.h"

#include <string.h>

#include <Zend/zend_exceptions.h>
#include <Zend/zend_extensions.h>
#include <Zend/zend_vm.h>

/* A class or function by its key in the engine's table. */
typedef struct carried_name {
	zend_string *declared;   /* class: its name, to load it by; NULL if that does not load it */
	void        *entry;      /* where it is in OPcache's memory; NULL if it is not there, so that no cache can name it */
} carried_name;

typedef struct carried_cache {
	zend_op_array *op_array;
	size_t         words;    /* 0: nothing in it can be used, but the function must have one */
	void         **copy;
} carried_cache;

/* All in process memory. */
struct hearth_carry {
	HashTable classes;       /* key => carried_name, in the order of declaration */
	HashTable functions;     /* key => carried_name */
	HashTable caches;        /* address of the function => carried_cache */
	HashTable seen;          /* addresses of functions, while they are walked */
	HashTable strangers;     /* addresses of what is missing or another now: no cache may name it */
};

/* {{{ Memory */

static void free_name(zval *entry)
{
	carried_name *name = Z_PTR_P(entry);

	if (name->declared) {
		zend_string_release_ex(name->declared, true);
	}
	pefree(name, 1);
}

static void free_cache(zval *entry)
{
	carried_cache *cache = Z_PTR_P(entry);

	if (cache->copy) {
		pefree(cache->copy, 1);
	}
	pefree(cache, 1);
}

static hearth_carry *new_carry(void)
{
	hearth_carry *carry = pemalloc(sizeof(*carry), 1);

	zend_hash_init(&carry->classes, 1024, NULL, free_name, true);
	zend_hash_init(&carry->functions, 256, NULL, free_name, true);
	zend_hash_init(&carry->caches, 8192, NULL, free_cache, true);
	zend_hash_init(&carry->seen, 8192, NULL, NULL, true);
	zend_hash_init(&carry->strangers, 64, NULL, NULL, true);
	return carry;
}

void hearth_carry_forget(hearth_carry *carry)
{
	zend_hash_destroy(&carry->classes);
	zend_hash_destroy(&carry->functions);
	zend_hash_destroy(&carry->caches);
	zend_hash_destroy(&carry->seen);
	zend_hash_destroy(&carry->strangers);
	pefree(carry, 1);
}

/* Addresses are multiples of 8. */
static zend_ulong index_of(const void *address)
{
	return (zend_ulong) (uintptr_t) address >> 3;
}

/* A set of addresses. */
static bool add(HashTable *set, const void *address)
{
	return zend_hash_index_add_empty_element(set, index_of(address)) != NULL;
}

static bool holds(const HashTable *set, const void *address)
{
	return zend_hash_index_exists(set, index_of(address));
}
/* }}} */

/* {{{ Run-time caches, out of the request that ends */

/*
 * The words of an opcode that may hold what this request alone defined, and their number. Which opcode has which words,
 * and where, is Zend/zend_vm_def.h's (8.2 to 8.4); the others hold classes, functions and offsets of properties.
 */
static uint32_t words_of_request(const zend_op *opline, uint32_t *offset)
{
	*offset = opline->extended_value;
	switch (opline->opcode) {
		/* Class, address of the value, declaration of the property. */
		case ZEND_FETCH_STATIC_PROP_R:
		case ZEND_FETCH_STATIC_PROP_W:
		case ZEND_FETCH_STATIC_PROP_RW:
		case ZEND_FETCH_STATIC_PROP_IS:
		case ZEND_FETCH_STATIC_PROP_FUNC_ARG:
		case ZEND_FETCH_STATIC_PROP_UNSET:
			*offset &= ~ZEND_FETCH_OBJ_FLAGS;
			return 3;
		case ZEND_ISSET_ISEMPTY_STATIC_PROP:
			*offset &= ~ZEND_ISEMPTY;
			return 3;
		case ZEND_ASSIGN_STATIC_PROP_REF:
			*offset &= ~ZEND_RETURNS_FUNCTION;
			return 3;
		case ZEND_ASSIGN_STATIC_PROP_OP:
			*offset = (opline + 1)->extended_value;
			return 3;
		case ZEND_ASSIGN_STATIC_PROP:
		case ZEND_PRE_INC_STATIC_PROP:
		case ZEND_PRE_DEC_STATIC_PROP:
		case ZEND_POST_INC_STATIC_PROP:
		case ZEND_POST_DEC_STATIC_PROP:
		case ZEND_UNSET_STATIC_PROP:
			return 3;
		/* Class, address of the value. */
		case ZEND_FETCH_CLASS_CONSTANT:
			return 2;
		/* The constant, or how many there were when it was not defined. */
		case ZEND_FETCH_CONSTANT:
		case ZEND_DEFINED:
		/* The class, once it is declared. */
		case ZEND_DECLARE_CLASS_DELAYED:
		case ZEND_DECLARE_ANON_CLASS:
			return 1;
		default:
			return 0;
	}
}

/* Whether the words of such an opcode are the same in each request nevertheless. */
static bool is_lasting(const zend_op *opline, void **words)
{
	const zval *value;

	switch (opline->opcode) {
		case ZEND_FETCH_CLASS_CONSTANT:
			/* A constant that needed no evaluation is in OPcache's memory. */
			value = words[1];
			return value && !is_zend_ptr(value) && !Z_REFCOUNTED_P(value) && Z_TYPE_P(value) != IS_CONSTANT_AST;
		case ZEND_FETCH_CONSTANT:
			/* An odd word is no address. An extension's constant is the process's. */
			return words[0] && !((uintptr_t) words[0] & 1) && !is_zend_ptr(words[0]);
		default:
			return false;
	}
}

static void clear(carried_cache *cache, uint32_t offset, uint32_t count)
{
	size_t first = offset / sizeof(void *);

	if (first + count <= cache->words) {
		memset(cache->copy + first, 0, count * sizeof(void *));
	}
}

static void scrub(carried_cache *cache)
{
	const zend_op_array *op_array = cache->op_array;
	const zend_op *opline = op_array->opcodes, *end = opline + op_array->last;
	uint32_t offset, count;

	/* The first words belong to extensions (to the JIT's profiler, for instance), which take zeros for a new request. */
	clear(cache, 0, (uint32_t) zend_op_array_extension_handles);
	for (; opline < end; opline++) {
		count = words_of_request(opline, &offset);
		if (count > 0 && offset / sizeof(void *) + count <= cache->words
				&& !is_lasting(opline, cache->copy + offset / sizeof(void *))) {
			clear(cache, offset, count);
		}
		if (opline->opcode == ZEND_RECV_INIT) {
			zval *value = RT_CONSTANT(opline, opline->op2);

			if (Z_OPT_TYPE_P(value) == IS_CONSTANT_AST) {
				/* The default of a parameter, evaluated: a zval. */
				clear(cache, Z_CACHE_SLOT_P(value), sizeof(zval) / sizeof(void *));
			}
		}
	}
}

/* Nothing may be left that points into the memory of the request. Which word it is, and why, does not matter then. */
static bool is_of_process(const carried_cache *cache)
{
	size_t i;

	for (i = 0; i < cache->words; i++) {
		if (cache->copy[i] && is_zend_ptr(cache->copy[i])) {
			return false;
		}
	}
	return true;
}

static void keep_cache(hearth_carry *carry, zend_op_array *op_array)
{
	carried_cache *cache;
	void **words;

	if (op_array->cache_size <= 0 || is_zend_ptr(op_array) || !ZEND_MAP_PTR(op_array->run_time_cache)
			|| !ZEND_MAP_PTR_IS_OFFSET(op_array->run_time_cache)) {
		return;
	}
	words = RUN_TIME_CACHE(op_array);
	if (!words) {
		return;
	}
	cache = pemalloc(sizeof(*cache), 1);
	cache->op_array = op_array;
	cache->words = op_array->cache_size / sizeof(void *);
	cache->copy = pemalloc(op_array->cache_size, 1);
	memcpy(cache->copy, words, op_array->cache_size);
	scrub(cache);
	if (!is_of_process(cache)) {
		cache->words = 0;
	}
	zend_hash_index_update_ptr(&carry->caches, index_of(op_array), cache);
}

static void keep_caches(hearth_carry *carry, zend_function *function)
{
	uint32_t i;

	if (!function || function->type != ZEND_USER_FUNCTION || !add(&carry->seen, function)) {
		return;
	}
	keep_cache(carry, &function->op_array);
	for (i = 0; i < function->op_array.num_dynamic_func_defs; i++) {
		keep_caches(carry, (zend_function *) function->op_array.dynamic_func_defs[i]);
	}
}

static void keep_caches_of_class(hearth_carry *carry, zend_class_entry *class)
{
	zend_property_info *property;
	zend_function *method;

	ZEND_HASH_FOREACH_PTR(&class->function_table, method) {
		keep_caches(carry, method);
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_PTR(&class->properties_info, property) {
		zend_function **hooks = compat_property_hooks(property);
		int i;

		for (i = 0; hooks && i < COMPAT_PROPERTY_HOOKS; i++) {
			keep_caches(carry, hooks[i]);
		}
	} ZEND_HASH_FOREACH_END();
}
/* }}} */

/* {{{ Names */

static void keep_name(hearth_carry *carry, HashTable *names, zend_string *key, carried_name name)
{
	carried_name *known = zend_hash_find_ptr(names, key);
	zend_string *kept;

	if (known) {
		/* Two requests meant two things by one name. */
		if (known->entry != name.entry) {
			add(&carry->strangers, known->entry);
			add(&carry->strangers, name.entry);
		}
		return;
	}
	if (name.declared) {
		name.declared = zend_string_init(ZSTR_VAL(name.declared), ZSTR_LEN(name.declared), true);
	}
	kept = zend_string_init(ZSTR_VAL(key), ZSTR_LEN(key), true);
	zend_hash_update_mem(names, kept, &name, sizeof(name));
	zend_string_release_ex(kept, true);
}

/* Neither an alias nor an anonymous class is found by a name. */
static bool can_be_loaded(const zend_string *key, const zend_class_entry *class)
{
	return zend_string_equals_ci(key, class->name) && !memchr(ZSTR_VAL(key), '\0', ZSTR_LEN(key))
		&& (class->ce_flags & ZEND_ACC_LINKED);
}

hearth_carry *hearth_carry_capture(hearth_carry *carry)
{
	zend_string *key;
	zend_class_entry *class;
	zend_function *function;

	if (!carry) {
		carry = new_carry();
	}
	ZEND_HASH_FOREACH_STR_KEY_PTR(EG(function_table), key, function) {
		if (key && function->type == ZEND_USER_FUNCTION) {
			carried_name name = { NULL, is_zend_ptr(function) ? NULL : function };

			keep_name(carry, &carry->functions, key, name);
			keep_caches(carry, function);
		}
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_STR_KEY_PTR(EG(class_table), key, class) {
		if (key && class->type == ZEND_USER_CLASS) {
			carried_name name = { can_be_loaded(key, class) ? class->name : NULL, is_zend_ptr(class) ? NULL : class };

			keep_name(carry, &carry->classes, key, name);
			keep_caches_of_class(carry, class);
		}
	} ZEND_HASH_FOREACH_END();
	zend_hash_clean(&carry->seen);
	return carry;
}
/* }}} */

/* {{{ Into the request that serves */

static void say_not_loaded(const zend_string *class)
{
	char *message;
	size_t len;

	len = spprintf(&message, 0, "class %s of the warm-up is not loaded before the first request: %s", ZSTR_VAL(class),
		EG(exception) ? ZSTR_VAL(EG(exception)->ce->name) : "no autoloader finds it");
	hearth_log(LOG_DEBUG, message, len);
	efree(message);
}

/* May run the application's autoloaders, and bail out. */
static zend_class_entry *load(zend_string *name)
{
	zend_string *copy = zend_string_init(ZSTR_VAL(name), ZSTR_LEN(name), false);
	zend_class_entry *class = zend_lookup_class_ex(copy, NULL, 0);

	if (!class) {
		say_not_loaded(copy);
	}
	if (EG(exception)) {
		zend_clear_exception();
	}
	zend_string_release(copy);
	return class;
}

static void load_classes(hearth_carry *carry, sapi_warmth *warmth)
{
	zend_string *key;
	carried_name *name;
	zend_class_entry *class;

	ZEND_HASH_FOREACH_STR_KEY_PTR(&carry->classes, key, name) {
		class = zend_hash_find_ptr(EG(class_table), key);
		if (!class && name->declared) {
			class = load(name->declared);
			*(class ? &warmth->classes : &warmth->missing) += 1;
		}
	} ZEND_HASH_FOREACH_END();
}

/* After all classes are loaded: what one autoloader brings may be what another name means. */
static void find_strangers(hearth_carry *carry)
{
	zend_string *key;
	carried_name *name;

	ZEND_HASH_FOREACH_STR_KEY_PTR(&carry->classes, key, name) {
		if (name->entry && zend_hash_find_ptr(EG(class_table), key) != name->entry) {
			add(&carry->strangers, name->entry);
		}
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_STR_KEY_PTR(&carry->functions, key, name) {
		if (name->entry && zend_hash_find_ptr(EG(function_table), key) != name->entry) {
			add(&carry->strangers, name->entry);
		}
	} ZEND_HASH_FOREACH_END();
}

static bool names_strangers(const hearth_carry *carry, const carried_cache *cache)
{
	size_t i;

	if (cache->op_array->scope && holds(&carry->strangers, cache->op_array->scope)) {
		return true;
	}
	for (i = 0; i < cache->words; i++) {
		if (cache->copy[i] && holds(&carry->strangers, cache->copy[i])) {
			return true;
		}
	}
	return false;
}

/* Whether this request's table of addresses has a place for it: it has, once one script came from OPcache. */
static bool has_place(const zend_op_array *op_array)
{
	return ZEND_MAP_PTR_OFFSET2PTR((uintptr_t) ZEND_MAP_PTR(op_array->run_time_cache)) < compat_map_ptr_end();
}

/*
 * Every function that had a cache gets one: a cache that names a function is proof to the engine that this function has
 * one as well.
 */
static void put_caches(hearth_carry *carry, sapi_warmth *warmth)
{
	carried_cache *cache;

	ZEND_HASH_FOREACH_PTR(&carry->caches, cache) {
		if (!has_place(cache->op_array)) {
			warmth->skipped = "OPcache does not serve the application's scripts";
			return;
		}
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_PTR(&carry->caches, cache) {
		if (!RUN_TIME_CACHE(cache->op_array)) {
			zend_init_func_run_time_cache(cache->op_array);
		}
		if (cache->words > 0 && !names_strangers(carry, cache)) {
			memcpy(RUN_TIME_CACHE(cache->op_array), cache->copy, cache->words * sizeof(void *));
			warmth->caches++;
		} else {
			warmth->dropped++;
		}
	} ZEND_HASH_FOREACH_END();
}

void hearth_carry_load(hearth_carry *carry, sapi_warmth *warmth)
{
	load_classes(carry, warmth);
}

void hearth_carry_put(hearth_carry *carry, sapi_warmth *warmth)
{
	find_strangers(carry);
	put_caches(carry, warmth);
}
/* }}} */
