/*
 * Everything that differs between the PHP versions we build for (8.2 to 8.5).
 * No other file tests PHP_VERSION_ID.
 *
 * Runs in: zygote | worker.
 */
#ifndef HEARTH_COMPAT_H
#define HEARTH_COMPAT_H

#include <stdint.h>

#include <main/php.h>
#include <Zend/zend_signal.h>
#include <main/php_main.h>
#include <main/php_variables.h>
#include <main/php_version.h>
#if PHP_VERSION_ID >= 80300
# include <Zend/zend_call_stack.h>
# include <Zend/zend_max_execution_timer.h>
#endif
#include <ext/random/php_random.h>

#if PHP_VERSION_ID < 80200
# error "PHP 8.2 or newer is needed"
#endif

/* A forked process takes over: its own pid in the allocator and in the timers. */
static inline void compat_child_init(void)
{
#if defined(HEARTH_HAVE_CHILD_INIT)
	php_child_init();
#elif PHP_VERSION_ID >= 80300
	zend_max_execution_timer_init();
#endif
}

/* Tells the engine the bounds of the stack that the script runs on; needed since zend.max_allowed_stack_size exists. */
static inline void compat_set_stack(void *low, size_t size)
{
#if PHP_VERSION_ID >= 80300
# ifdef ZEND_CHECK_STACK_LIMIT
	zend_long allowed = EG(max_allowed_stack_size);

	EG(call_stack).base = (char *) low + size;
	EG(call_stack).max_size = size;
	if (allowed == ZEND_MAX_ALLOWED_STACK_SIZE_UNCHECKED) {
		EG(stack_base) = (void *) 0;
		EG(stack_limit) = (void *) 0;
		return;
	}
	if (allowed != ZEND_MAX_ALLOWED_STACK_SIZE_DETECT && (size_t) allowed < size) {
		size = (size_t) allowed;
	}
	EG(stack_base) = EG(call_stack).base;
	EG(stack_limit) = zend_call_stack_limit(EG(stack_base), size, EG(reserved_stack_size));
# endif
#endif
}

/* A memory-limit error may leave a flag that silences shutdown functions and destructors (8.4.27 and later, all 8.5). */
static inline void compat_clear_delayed_oom(void)
{
#ifdef HEARTH_HAVE_DELAYED_OOM
	EG(delayed_oom).state = ZEND_OOM_STATE_NONE;
#endif
}

/* The heap's free lists are protected by a key since 8.4; each request gets one of its own. */
static inline void compat_new_heap_key(void)
{
#ifdef HEARTH_HAVE_HEAP_KEY
	refresh_memory_manager();
#endif
}

/*
 * With Zend signals each classic request installs the same seven handlers again. They were installed by the first
 * one, and what a script sets is kept in the engine's table, which every request starts afresh; so once will do.
 */
static inline void compat_keep_signal_handlers(void)
{
#ifdef ZEND_SIGNALS
	SIGG(reset) = 0;
#endif
}

/* Has PHP take the environment from `replacement`; the function it used goes to *original. */
static inline void compat_replace_environment_import(void (**original)(zval *), void (*replacement)(zval *))
{
	*original = php_import_environment_variables;
	php_import_environment_variables = replacement;
#if PHP_VERSION_ID >= 80300
	php_load_environment_variables = replacement;
#endif
}

/* The hooks of a property, each of which may be NULL; NULL if it has none. They exist since 8.4. */
#if PHP_VERSION_ID >= 80400
# define COMPAT_PROPERTY_HOOKS ZEND_PROPERTY_HOOK_COUNT
static inline zend_function **compat_property_hooks(const zend_property_info *property)
{
	return property->hooks;
}
#else
# define COMPAT_PROPERTY_HOOKS 0
static inline zend_function **compat_property_hooks(const zend_property_info *property)
{
	return NULL;
}
#endif

/* The end of what is in use of the table that ZEND_MAP_PTR offsets point into. Since 8.4 it begins with a part of its own for internal functions. */
static inline void **compat_map_ptr_end(void)
{
#ifdef ZEND_MAP_PTR_NEW_STATIC
	return (void **) CG(map_ptr_real_base) + zend_map_ptr_static_size + CG(map_ptr_last);
#else
	return (void **) CG(map_ptr_real_base) + CG(map_ptr_last);
#endif
}

/* Where session_start() was called, which 8.3 keeps for its error message. */
#if PHP_VERSION_ID >= 80300
# define compat_forget_session_start() do { \
		if (PS(session_started_filename)) { \
			zend_string_release(PS(session_started_filename)); \
			PS(session_started_filename) = NULL; \
			PS(session_started_lineno) = 0; \
		} \
	} while (0)
#else
# define compat_forget_session_start() do { } while (0)
#endif

#endif
