/*
 * What the parts of the search for leaks share: leaks.c compares and tells, leaks_values.c looks at values of PHP,
 * leaks_process.c at settings, handlers, resources and the process. Nobody else includes it.
 *
 * Runs in: worker, zygote.
 */
#ifndef HEARTH_LEAKS_H
#define HEARTH_LEAKS_H

#include "context.h"

/* Bytes of a name, a place or a change; more is cut. */
#define LEAK_TEXT 256
/* Texts of the process that are kept to be shown: folder, locale, … */
#define LEAK_TEXTS 4

/* What a value looked like. */
typedef struct leak_look {
	uint64_t    hash;          /* of the value, to a limited depth */
	const void *class_entry;   /* of an object */
	uint32_t    size;          /* elements, bytes; of a number kept as such, the number */
	uint8_t     type;          /* IS_…; UNDEF is seen as NULL */
} leak_look;

/* One thing that may change, by a key that is its own. Process memory. */
typedef struct leak_record {
	uint64_t  key;             /* 0: free */
	leak_look look;
} leak_record;

/* Everything as it looked at one moment. Process memory, kept and filled again. */
typedef struct leak_state {
	leak_record *records;
	size_t       capacity;     /* a power of two, or 0 */
	size_t       used;
	uint32_t     functions;    /* in the table of functions */
	uint32_t     constants;
	size_t       memory;       /* bytes that the heap has in use */
	char         texts[LEAK_TEXTS][LEAK_TEXT];
} leak_state;

/* A look around. */
typedef struct leak_scan {
	leak_state       *now;
	const leak_state *before;      /* NULL: only look */
	bool              full;        /* there is more than is looked at */
	unsigned          budget;      /* elements of arrays that are still looked at */
} leak_scan;

/* Who has a value: named only if it has changed. */
typedef struct leak_owner {
	sapi_leak_kind          kind;
	const zend_class_entry *class_entry;
	const zend_function    *function;
	const char             *name;
	size_t                  name_len;
} leak_owner;

#pragma GCC visibility push(hidden)

uint64_t leak_mix(uint64_t hash, uint64_t value);
uint64_t leak_hash(const char *bytes, size_t len);
uint64_t leak_hash_string(const zend_string *string);
/* The record of `key`, made if there is none; NULL if there are too many. */
leak_record *leak_touch(leak_scan *scan, uint64_t key);
/* How the thing of that key looked before; NULL if it was not looked at. */
const leak_look *leak_look_before(const leak_scan *scan, uint64_t key);
leak_look leak_look_at(leak_scan *scan, zval *value);
/* Notes how `value` looks and tells if it looked otherwise. `initial` is what it was if it was not looked at before; NULL: unknown. */
void leak_see(leak_scan *scan, const leak_owner *owner, uint64_t key, zval *value, zval *initial);
/* The same of a number; tells only if it has grown. */
void leak_see_count(leak_scan *scan, sapi_leak_kind kind, const char *name, zend_long count);
/* Notes a thing that is there; true if it was not before. */
bool leak_is_new(leak_scan *scan, uint64_t key);
/* Tells the host. A place without a file has none. */
void leak_tell(sapi_leak_kind kind, const char *name, const zend_string *file, uint32_t line, const char *change);

/* The same, with the name that the owner's kind makes of it and its place. */
void leak_tell_owner(const leak_owner *owner, const char *change);

/* leaks_values.c */
void leak_see_values(leak_scan *scan);

/* leaks_process.c */
void leak_see_process(leak_scan *scan);

#pragma GCC visibility pop

#endif
