/*
 * Makes the booted application ready to be an image that requests start from,
 * and knows what of it changes with every request although nothing happened
 * (seeds), or holds nothing (free pages of the heap).
 *
 * The allocator's layout is private to the engine. It is not taken from a
 * version's sources but found by what it does: a block that is freed shows up
 * at the head of its free list, and a chunk counts its free pages. Where that
 * does not come out, nothing is guessed: the image is larger then, and right.
 *
 * Runs in: zygote, for the image; worker, for the seeds. Called by: request.c,
 * sapi.c.
 */
#include "context.h"

#include <dlfcn.h>
#include <string.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <Zend/zend_alloc.h>
#include <Zend/zend_gc.h>
#include <ext/random/php_random.h>

#define CHUNK_SIZE ((size_t) 2 << 20)
#define PAGE_SIZE ((size_t) 4096)
#define CHUNK_PAGES (CHUNK_SIZE / PAGE_SIZE)
#define MAP_WORDS (CHUNK_PAGES / 64)
/* Where the words of a heap may be: it is smaller than this, and in the first page of its first chunk. */
#define HEAP_WORDS 96
/* Number of small sizes (Zend/zend_alloc_sizes.h), of which the first are 8, 16 and 24 bytes; the first is not used from 8.4 on. */
#define BINS 30
/* How a chunk's first page describes itself: a run of one page. */
#define FIRST_PAGE 0x40000001u

/* The head of a chunk, as far as it has been the same since PHP 7.0. */
typedef struct chunk {
	void         *heap;
	struct chunk *next;
	struct chunk *prev;
	uint32_t      free_pages;
} chunk;

/* {{{ The heap */

/* Word of the heap at which the free lists begin; -1 if they are not found. */
static int find_free_lists(void **heap)
{
	int word;
	void *small = emalloc(16);
	void *larger = emalloc(24);

	efree(larger);
	efree(small);
	for (word = 0; word + BINS < HEAP_WORDS; word++) {
		if (heap[word + 1] == small && heap[word + 2] == larger) {
			return word;
		}
	}
	return -1;
}

static uint32_t count_free(const uint64_t *used)
{
	uint32_t count = 0;
	size_t i;

	for (i = 0; i < MAP_WORDS; i++) {
		count += (uint32_t) __builtin_popcountll(~used[i]);
	}
	return count;
}

/* True if `offset` is where each chunk of the heap has its map of used pages. */
static bool is_page_map(const chunk *first, size_t offset)
{
	const chunk *at = first;

	do {
		const uint64_t *used = (const uint64_t *) ((const char *) at + offset);

		if (at->heap != first->heap || !(used[0] & 1) || count_free(used) != at->free_pages) {
			return false;
		}
		at = at->next;
	} while (at != first);
	return true;
}

/* Offset in a chunk of the map of used pages; 0 if it is not found. */
static size_t find_page_map(const chunk *first)
{
	size_t offset;

	for (offset = sizeof(chunk); offset + MAP_WORDS * 8 + CHUNK_PAGES * 4 <= PAGE_SIZE; offset += 8) {
		const uint32_t *pages = (const uint32_t *) ((const char *) first + offset + MAP_WORDS * 8);

		if (pages[0] == FIRST_PAGE && is_page_map(first, offset)) {
			return offset;
		}
	}
	return 0;
}

/*
 * A request shall not fill gaps in pages of the boot, each of which would have to be put back: it gets pages of its
 * own. The gaps are not lost, since the image has them in no list.
 */
static bool seal_free_lists(void)
{
	void **heap = (void **) zend_mm_get_heap();
	int word;

	if (!is_zend_mm()) {
		return false;
	}
	word = find_free_lists(heap);
	if (word < 0) {
		return false;
	}
	memset(heap + word, 0, BINS * sizeof(void *));
	return true;
}

static bool is_on_stack(const void *address)
{
	return (uintptr_t) address - (uintptr_t) hearth.php_stack < PHP_STACK_SIZE;
}

size_t sapi_free_memory(sapi_range *ranges, size_t capacity)
{
	const chunk *first = (const chunk *) ((uintptr_t) zend_mm_get_heap() & ~(CHUNK_SIZE - 1));
	const chunk *at = first;
	size_t count = 1;
	size_t offset = is_zend_mm() ? find_page_map(first) : 0;

	/* Below the red zone of the parked stack (System V ABI for x86-64, 3.2.2). A fiber is parked on a stack of its own. */
	ranges[0].start = hearth.php_stack;
	ranges[0].len = is_on_stack(hearth.php_sp)
		? ((uintptr_t) hearth.php_sp - 128 - (uintptr_t) hearth.php_stack) & ~(PAGE_SIZE - 1) : 0;
	if (!offset) {
		return count;
	}
	do {
		const uint64_t *used = (const uint64_t *) ((const char *) at + offset);
		size_t page;

		for (page = 1; page < CHUNK_PAGES && count < capacity; page++) {
			bool is_free = !(used[page / 64] >> (page % 64) & 1);
			char *start = (char *) at + page * PAGE_SIZE;

			if (!is_free) {
				continue;
			}
			if (count > 1 && (char *) ranges[count - 1].start + ranges[count - 1].len == start) {
				ranges[count - 1].len += PAGE_SIZE;
			} else {
				ranges[count].start = start;
				ranges[count].len = PAGE_SIZE;
				count++;
			}
		}
		at = at->next;
	} while (at != first);
	return count;
}
/* }}} */

/* {{{ Randomness */

static int random_bytes(unsigned char *buffer, int len)
{
	while (len > 0) {
		/* Not the C library's function: newer ones keep a state of their own. */
		ssize_t got = syscall(SYS_getrandom, buffer, (size_t) len, 0);

		if (got <= 0) {
			return 0;
		}
		buffer += got;
		len -= (int) got;
	}
	return 1;
}

static int random_is_ready(void)
{
	return 1;
}

/* OpenSSL's RAND_METHOD (RAND_set_rand_method(3ssl)), without its headers. */
static const struct {
	int  (*seed)(const void *, int);
	int  (*bytes)(unsigned char *, int);
	void (*cleanup)(void);
	int  (*add)(const void *, int, double);
	int  (*pseudorand)(unsigned char *, int);
	int  (*status)(void);
} kernel_random = { NULL, random_bytes, NULL, NULL, random_bytes, random_is_ready };

/* OpenSSL's generator lives in memory that is put back, and would repeat itself. The kernel's does not. */
static void take_openssl_from_kernel(void)
{
	int (*set_method)(const void *) = (int (*)(const void *)) dlsym(RTLD_DEFAULT, "RAND_set_rand_method");

	if (set_method) {
		set_method(&kernel_random);
	}
}

/* SQLite has a generator of its own, which it seeds when it is first used. What the boot has used is forgotten. */
static void forget_seed_of_sqlite(void)
{
	void (*randomness)(int, void *) = (void (*)(int, void *)) dlsym(RTLD_DEFAULT, "sqlite3_randomness");

	if (randomness) {
		randomness(0, NULL);
	}
}

static void reseed_libc(void)
{
	struct {
		unsigned libc;
		long     libc48;
	} seed;

	if (random_bytes((unsigned char *) &seed, sizeof(seed))) {
		srandom(seed.libc);
		srand48(seed.libc48);
	}
}

void hearth_reseed_after_fork(void)
{
	hearth_reseed();
	if (!hearth.isolated) {
		forget_seed_of_sqlite();
		reseed_libc();
	}
}

void hearth_reseed(void)
{
	RANDOM_G(mt19937_seeded) = false;
	RANDOM_G(combined_lcg_seeded) = false;
	if (hearth.isolated) {
		compat_new_heap_key();
		reseed_libc();
	}
}
/* }}} */

/*
 * zend_objects_store_call_destructors() marks every object, and so writes to every page that has one. Those that
 * have no destructor can be marked now.
 */
static void mark_without_destructor(void)
{
	uint32_t i;

	for (i = 1; i < EG(objects_store).top; i++) {
		zend_object *object = EG(objects_store).object_buckets[i];

		if (IS_OBJ_VALID(object) && object->handlers->dtor_obj == zend_objects_destroy_object
				&& !object->ce->destructor) {
			GC_ADD_FLAGS(object, IS_OBJ_DESTRUCTOR_CALLED);
		}
	}
}

void hearth_seal(void)
{
	char once[1];

	hearth_isolated_startup();
	gc_collect_cycles();
	take_openssl_from_kernel();
	forget_seed_of_sqlite();
	/* Newer C libraries map a state for it with the first call, outside of what is put back. */
	(void) !getrandom(once, sizeof(once), 0);
	mark_without_destructor();
	hearth.boot_objects = EG(objects_store).top;
	/* Numbers of freed objects are not used again, so that those of the request lie behind those of the boot. */
	EG(objects_store).free_list_head = -1;
	hearth.boot_resources = EG(regular_list).nNextFreeElement;
	hearth.boot_persistent = zend_hash_num_elements(&EG(persistent_list));
	zend_mm_gc(zend_mm_get_heap());
	hearth.sealed_heap = seal_free_lists();
	hearth.isolated = true;
}

const char *sapi_seal_problem(void)
{
	const chunk *first = (const chunk *) ((uintptr_t) zend_mm_get_heap() & ~(CHUNK_SIZE - 1));

	if (!is_zend_mm()) {
		return "PHP runs without its own allocator (USE_ZEND_ALLOC=0)";
	}
	if (!hearth.sealed_heap) {
		return "the free lists of PHP's heap were not found";
	}
	return find_page_map(first) ? NULL : "the page map of PHP's heap was not found";
}
