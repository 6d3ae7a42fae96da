/*
 * Looks through what has been booted for what cannot be put into an image:
 * objects and streams that hold a connection, generators of random numbers
 * that every request would start in the same state. Each is told with what
 * holds it, so that it can be found in the application. Also counts, for
 * people who want to know what their image consists of.
 *
 * Reads only, but for garbage, which is collected first, and for persistent
 * connections that nobody uses, which are closed: no worker may share one.
 *
 * Runs in: zygote, on the PHP stack. Called by: request.c.
 */
#include "context.h"

#include <string.h>
#include <sys/socket.h>

#include <Zend/zend_closures.h>
#include <Zend/zend_gc.h>
#include <Zend/zend_list.h>
#include <main/php_network.h>
#if __has_include(<ext/pdo/php_pdo_driver.h>)
# include <ext/pdo/php_pdo_driver.h>
# define HAVE_PDO_DRIVER
#endif

/* Holders of holders that are followed, until one is of the application. */
#define HOLDERS 6
/* Arrays in arrays that are searched. */
#define DEPTH 4
/* Things of one kind whose holder is searched, and told. */
#define TOLD 32
/* Elements of arrays in one search. */
#define BUDGET 2000000
#define TEXT 512

/* Where something is held. */
typedef struct holder {
	const zend_class_entry *class_entry;   /* whose property it is, or NULL */
	zend_object            *object;        /* NULL: nothing further holds it */
	const char             *name;          /* of the property or variable, or empty */
	const char             *function;      /* whose variable it is, or NULL */
	const char             *file;
	uint32_t                line;
} holder;

typedef struct search {
	void       *ctx;
	sapi_found  found;
	size_t      budget;
	size_t      connections;               /* objects and streams */
	size_t      generators;
} search;

static sapi_contents contents;

/* {{{ Who holds it */

static bool holds(search *search, zval *value, const void *target, int depth)
{
	zval *element;

	ZVAL_DEREF(value);
	if (Z_TYPE_P(value) == IS_OBJECT || Z_TYPE_P(value) == IS_RESOURCE) {
		return (const void *) Z_COUNTED_P(value) == target;
	}
	/* What never changes holds no objects. */
	if (Z_TYPE_P(value) != IS_ARRAY || depth == 0 || (GC_FLAGS(Z_ARRVAL_P(value)) & GC_IMMUTABLE)) {
		return false;
	}
	ZEND_HASH_FOREACH_VAL_IND(Z_ARRVAL_P(value), element) {
		if (search->budget == 0) {
			return false;
		}
		search->budget--;
		if (holds(search, element, target, depth - 1)) {
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	return false;
}

static void place_class(holder *holder, const zend_class_entry *class_entry)
{
	if (class_entry->type == ZEND_USER_CLASS) {
		holder->file = ZSTR_VAL(class_entry->info.user.filename);
		holder->line = class_entry->info.user.line_start;
	}
}

static void place_function(holder *holder, const zend_function *function)
{
	holder->function = function->common.function_name ? ZSTR_VAL(function->common.function_name) : "";
	holder->file = ZSTR_VAL(function->op_array.filename);
	holder->line = function->op_array.line_start;
}

static bool held_by_property(search *search, zend_object *object, const void *target, holder *holder)
{
	zend_class_entry *class_entry = object->ce;
	zend_string *name;
	zval *value;
	int i;

	for (i = 0; i < class_entry->default_properties_count && class_entry->properties_info_table; i++) {
		const zend_property_info *property = class_entry->properties_info_table[i];

		if (property && holds(search, &object->properties_table[i], target, DEPTH)) {
			holder->name = zend_get_unmangled_property_name(property->name);
			holder->class_entry = property->ce;
			place_class(holder, property->ce);
			return true;
		}
	}
	if (!object->properties) {
		return false;
	}
	ZEND_HASH_FOREACH_STR_KEY_VAL_IND(object->properties, name, value) {
		if (holds(search, value, target, DEPTH)) {
			holder->name = name ? zend_get_unmangled_property_name(name) : "";
			holder->class_entry = class_entry;
			place_class(holder, class_entry);
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	return false;
}

/* What is neither in a property nor in an array: elements of SPL's containers, variables of closures and generators. */
static bool held_inside(search *search, zend_object *object, const void *target, holder *holder)
{
	zval *table = NULL;
	zend_array *properties;
	int i, count = 0;

	if (object->handlers->get_gc == zend_std_get_gc) {
		return false;
	}
	properties = object->handlers->get_gc(object, &table, &count);
	for (i = 0; i < count; i++) {
		if (holds(search, &table[i], target, DEPTH)) {
			break;
		}
	}
	if (i == count) {
		zval values;

		if (!properties) {
			return false;
		}
		ZVAL_ARR(&values, properties);
		if (!holds(search, &values, target, DEPTH)) {
			return false;
		}
	}
	holder->name = "";
	holder->class_entry = object->ce;
	if (object->ce == zend_ce_closure) {
		const zend_function *function = zend_get_closure_method_def(object);

		if (function->type == ZEND_USER_FUNCTION) {
			place_function(holder, function);
		}
	}
	return true;
}

static bool held_by_object(search *search, const void *target, holder *holder)
{
	uint32_t i;

	for (i = 1; i < EG(objects_store).top; i++) {
		zend_object *object = EG(objects_store).object_buckets[i];

		if (IS_OBJ_VALID(object) && object != target && !(OBJ_FLAGS(object) & IS_OBJ_FREE_CALLED)
				&& (held_by_property(search, object, target, holder) || held_inside(search, object, target, holder))) {
			holder->object = object;
			return true;
		}
	}
	return false;
}

static bool held_by_function(search *search, const zend_function *function, const void *target, holder *holder)
{
	HashTable *values;
	zend_string *name;
	zval *value;

	if (function->type != ZEND_USER_FUNCTION || !function->op_array.static_variables) {
		return false;
	}
	values = ZEND_MAP_PTR_GET(function->op_array.static_variables_ptr);
	if (!values) {
		return false;
	}
	ZEND_HASH_FOREACH_STR_KEY_VAL_IND(values, name, value) {
		if (name && holds(search, value, target, DEPTH)) {
			holder->name = ZSTR_VAL(name);
			place_function(holder, function);
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	return false;
}

static bool held_by_class(search *search, zend_class_entry *class_entry, const void *target, holder *holder)
{
	zval *members = class_entry->default_static_members_count ? CE_STATIC_MEMBERS(class_entry) : NULL;
	zend_property_info *property;
	zend_function *function;

	ZEND_HASH_FOREACH_PTR(&class_entry->function_table, function) {
		if (function->common.scope == class_entry && held_by_function(search, function, target, holder)) {
			holder->class_entry = class_entry;
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	if (!members) {
		return false;
	}
	ZEND_HASH_FOREACH_PTR(&class_entry->properties_info, property) {
		zval *value = members + property->offset;

		if (!(property->flags & ZEND_ACC_STATIC) || property->ce != class_entry) {
			continue;
		}
		ZVAL_DEINDIRECT(value);
		if (holds(search, value, target, DEPTH)) {
			holder->name = zend_get_unmangled_property_name(property->name);
			holder->class_entry = class_entry;
			place_class(holder, class_entry);
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	return false;
}

static bool held_by_declared(search *search, const void *target, holder *holder)
{
	zend_class_entry *class_entry;
	zend_function *function;

	ZEND_HASH_FOREACH_PTR(CG(class_table), class_entry) {
		if (class_entry->type == ZEND_USER_CLASS && (class_entry->ce_flags & ZEND_ACC_LINKED)
				&& held_by_class(search, class_entry, target, holder)) {
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_PTR(CG(function_table), function) {
		if (held_by_function(search, function, target, holder)) {
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	return false;
}

/* Global variables, and those of the functions in which the script waits. */
static bool held_by_variable(search *search, const void *target, holder *holder)
{
	const zend_execute_data *frame;
	zend_string *name;
	zval *value;

	ZEND_HASH_FOREACH_STR_KEY_VAL_IND(&EG(symbol_table), name, value) {
		if (name && holds(search, value, target, DEPTH)) {
			holder->name = ZSTR_VAL(name);
			holder->file = hearth.script;
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	for (frame = EG(current_execute_data); frame; frame = frame->prev_execute_data) {
		int i;

		if (!frame->func || !ZEND_USER_CODE(frame->func->type)) {
			continue;
		}
		for (i = 0; i < frame->func->op_array.last_var; i++) {
			if (holds(search, ZEND_CALL_VAR_NUM(frame, i), target, DEPTH)) {
				holder->name = ZSTR_VAL(frame->func->op_array.vars[i]);
				place_function(holder, frame->func);
				return true;
			}
		}
	}
	return false;
}

/* The nearest holder that is of the application, or the last one there is. */
static bool find_holder(search *search, const void *target, holder *result)
{
	bool found = false;
	int i;

	for (i = 0; i < HOLDERS && target; i++) {
		holder next;

		memset(&next, 0, sizeof(next));
		if (!held_by_object(search, target, &next) && !held_by_declared(search, target, &next)
				&& !held_by_variable(search, target, &next)) {
			break;
		}
		*result = next;
		found = true;
		if (next.file) {
			break;
		}
		target = next.object;
	}
	return found;
}

static sapi_str view(const char *text)
{
	sapi_str str = { text, strlen(text) };

	return str;
}

/* "App\Database::$connection" */
static void describe(const holder *holder, char *text)
{
	const char *class_name = holder->class_entry ? ZSTR_VAL(holder->class_entry->name) : NULL;

	if (holder->class_entry == zend_ce_closure) {
		snprintf(text, TEXT, "a closure");
	} else if (holder->function && class_name) {
		snprintf(text, TEXT, "$%s of %s::%s()", holder->name, class_name, holder->function);
	} else if (holder->function && *holder->function) {
		snprintf(text, TEXT, "$%s of %s()", holder->name, holder->function);
	} else if (class_name) {
		snprintf(text, TEXT, *holder->name ? "%s::$%s" : "%s", class_name, holder->name);
	} else {
		snprintf(text, TEXT, "$%s", holder->name);
	}
}

/* Whether the application holds it. */
static bool tell(search *search, sapi_find *find, const void *target)
{
	holder held;
	char by[TEXT] = "";
	char place[TEXT] = "";
	bool is_held = find_holder(search, target, &held);

	if (is_held) {
		describe(&held, by);
		if (held.file && held.line) {
			snprintf(place, sizeof(place), "%s:%u", held.file, held.line);
		} else if (held.file) {
			snprintf(place, sizeof(place), "%s", held.file);
		}
	}
	find->holder = view(by);
	find->place = view(place);
	search->found(search->ctx, find);
	return is_held;
}
/* }}} */

/* {{{ What to look for */

static bool is_called(const zend_class_entry *class_entry, const char *name)
{
	return zend_string_equals_cstr(class_entry->name, name, strlen(name));
}

/* PDO's objects, but for those whose database is a file. */
static bool is_remote_pdo(zend_object *object)
{
#ifdef HAVE_PDO_DRIVER
	const pdo_dbh_t *connection = php_pdo_dbh_fetch_inner(object);

	return connection && connection->driver && strcmp(connection->driver->driver_name, "sqlite") != 0;
#else
	return true;
#endif
}

static bool is_connection(zend_object *object)
{
	static const char *const classes[] = {
		"mysqli", "Redis", "RedisCluster", "RedisSentinel", "Relay\\Relay", "Memcached", "Memcache", "AMQPConnection",
		"PgSql\\Connection", "Socket", "CurlHandle", "CurlMultiHandle", "CurlShareHandle", "LDAP\\Connection",
		"IMAP\\Connection", "FTP\\Connection", "MongoDB\\Driver\\Manager", "SoapClient", "SNMP",
	};
	const zend_class_entry *class_entry;
	size_t i;

	for (class_entry = object->ce; class_entry; class_entry = class_entry->parent) {
		if (class_entry->type != ZEND_INTERNAL_CLASS) {
			continue;
		}
		if (is_called(class_entry, "PDO")) {
			return is_remote_pdo(object);
		}
		for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
			if (is_called(class_entry, classes[i])) {
				return true;
			}
		}
	}
	return false;
}

/* Generators whose next number follows from what is in memory. */
static bool is_generator(const zend_object *object)
{
	const zend_class_entry *engine = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("random\\engine"));
	const zend_class_entry *secure = zend_hash_str_find_ptr(CG(class_table), ZEND_STRL("random\\cryptosafeengine"));

	return engine && instanceof_function(object->ce, engine) && !(secure && instanceof_function(object->ce, secure));
}

static void look_at_object(search *search, zend_object *object)
{
	sapi_find find = { SAPI_FIND_CONNECTION, view(ZSTR_VAL(object->ce->name)), { "", 0 }, { "", 0 }, -1, 1 };

	if (is_connection(object)) {
		if (search->connections++ < TOLD) {
			tell(search, &find, object);
		}
	} else if (is_generator(object)) {
		find.kind = SAPI_FIND_GENERATOR;
		if (search->generators++ < TOLD) {
			tell(search, &find, object);
		}
	}
}

/* Streams of the application, and of extensions, whose objects are told besides. */
static void look_at_streams(search *search)
{
	zend_resource *resource;
	size_t told = 0;

	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		sapi_find find = { SAPI_FIND_CONNECTION, { "a stream", sizeof("a stream") - 1 }, { "", 0 }, { "", 0 }, -1, 1 };
		php_stream *stream = resource->ptr;
		php_socket_t socket = -1;

		if ((resource->type != php_file_le_stream() && resource->type != php_file_le_pstream())
				|| !strstr(stream->ops->label, "_socket")) {
			continue;
		}
		if (php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void **) &socket, 0) == SUCCESS) {
			find.fd = (int) socket;
		}
		/* A persistent one may only wait for an extension to take it again. */
		if (told++ >= TOLD || tell(search, &find, resource) || resource->type == php_file_le_stream()) {
			search->connections++;
		}
	} ZEND_HASH_FOREACH_END();
}

static void count_classes(void)
{
	zend_class_entry *class_entry;
	zend_string *name;

	ZEND_HASH_FOREACH_STR_KEY_PTR(CG(class_table), name, class_entry) {
		/* An alias is another name for the same class. */
		if (name && zend_string_equals_ci(name, class_entry->name)) {
			contents.classes++;
			contents.user_classes += class_entry->type == ZEND_USER_CLASS;
		}
	} ZEND_HASH_FOREACH_END();
}

static void count_objects(search *search)
{
	HashTable destructors;
	zend_string *name;
	zval *count;
	uint32_t i;

	zend_hash_init(&destructors, 8, NULL, NULL, 0);
	for (i = 1; i < EG(objects_store).top; i++) {
		const zend_object *object = EG(objects_store).object_buckets[i];

		if (!IS_OBJ_VALID(object)) {
			continue;
		}
		contents.objects++;
		if (object->ce->destructor) {
			count = zend_hash_lookup(&destructors, object->ce->name);
			ZVAL_LONG(count, (Z_TYPE_P(count) == IS_LONG ? Z_LVAL_P(count) : 0) + 1);
		}
	}
	ZEND_HASH_FOREACH_STR_KEY_VAL(&destructors, name, count) {
		sapi_find find = { SAPI_FIND_DESTRUCTOR, { ZSTR_VAL(name), ZSTR_LEN(name) }, { "", 0 }, { "", 0 }, -1, 0 };

		find.count = (size_t) Z_LVAL_P(count);
		search->found(search->ctx, &find);
	} ZEND_HASH_FOREACH_END();
	zend_hash_destroy(&destructors);
}
/* }}} */

/* Persistent streams are as at the end of a request: the script's list does not know them. */
static void forget_persistent_streams(void)
{
	zend_resource *resource;

	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (resource->type == php_file_le_pstream() && resource->ptr) {
			((php_stream *) resource->ptr)->res = NULL;
			resource->ptr = NULL;
			resource->type = -1;
		}
	} ZEND_HASH_FOREACH_END();
}

/* Whether a resource of the script stands for an entry of the persistent list. */
static bool is_persistent_in_use(void)
{
	zend_resource *resource, *persistent;

	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		ZEND_HASH_FOREACH_PTR(&EG(persistent_list), persistent) {
			if (resource->ptr && persistent->ptr == resource->ptr) {
				return true;
			}
		} ZEND_HASH_FOREACH_END();
	} ZEND_HASH_FOREACH_END();
	return false;
}

void hearth_look_through(const sapi_search *wanted)
{
	search search = { wanted->ctx, wanted->found, BUDGET, 0, 0 };
	uint32_t i;

	memset(&contents, 0, sizeof(contents));
	/* As hearth_seal() does: what nobody can reach is nobody's fault. */
	gc_collect_cycles();
	for (i = 1; i < EG(objects_store).top; i++) {
		zend_object *object = EG(objects_store).object_buckets[i];

		if (IS_OBJ_VALID(object) && !(OBJ_FLAGS(object) & IS_OBJ_FREE_CALLED)) {
			look_at_object(&search, object);
		}
	}
	look_at_streams(&search);
	count_classes();
	count_objects(&search);
	if (search.connections == 0) {
		forget_persistent_streams();
		if (!is_persistent_in_use()) {
			zend_hash_clean(&EG(persistent_list));
		}
	}
}

sapi_contents sapi_look_through(void *ctx, sapi_found found)
{
	sapi_search wanted = { ctx, found };

	hearth.wanted = &wanted;
	hearth_do(TASK_LOOK);
	hearth.wanted = NULL;
	return contents;
}
