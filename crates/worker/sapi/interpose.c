/*
 * Stands in front of the C library for what a request can change in its
 * process besides memory. The calls work as ever; what they changed is noted,
 * so that a rewind puts back only what was touched.
 *
 * It sees what comes through the dynamic symbol table: PHP, its extensions and
 * their libraries. It does not see the C library's calls to itself, nor bare
 * system calls (FFI); for those the rewind looks for itself from time to time.
 *
 * Runs in: zygote | worker. Called by: everything in the process.
 */
#include "context.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PAGE_MASK ((uintptr_t) 4095)
#define VISIBLE __attribute__((visibility("default")))
#define SPAWN_PARAMETERS \
	pid_t *process, const char *file, const posix_spawn_file_actions_t *actions, \
	const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]

/* Notes are taken while PHP runs a request whose effects will be undone. */
static bool watching;
static sapi_touched touched;
/* Bits, by number: interval timers that the request has started and not stopped. */
static unsigned running_timers;
/* Memory of the image, sorted; set once, before anything is watched. */
static const sapi_range *image;
static size_t image_count;

/* What is behind the calls that are more than one system call. */
static struct {
	int   (*sigaction)(int, const struct sigaction *, struct sigaction *);
	void (*(*signal)(int, void (*)(int)))(int);
	int   (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *(*dlopen)(const char *, int);
	int   (*timer_create)(clockid_t, struct sigevent *, timer_t *);
	int   (*nice)(int);
	int   (*initgroups)(const char *, gid_t);
	FILE *(*popen)(const char *, const char *);
	int   (*system)(const char *);
	int   (*posix_spawn)(SPAWN_PARAMETERS);
	int   (*posix_spawnp)(SPAWN_PARAMETERS);
} next;

static void *find(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void find_next(void)
{
	next.sigaction = find("sigaction");
	next.signal = find("signal");
	next.pthread_create = find("pthread_create");
	next.timer_create = find("timer_create");
	next.dlopen = find("dlopen");
	next.nice = find("nice");
	next.initgroups = find("initgroups");
	next.popen = find("popen");
	next.system = find("system");
	next.posix_spawn = find("posix_spawn");
	next.posix_spawnp = find("posix_spawnp");
}

/* Looked up at the first call, which may be that of a library that starts before the program does. */
#define NEXT(name) (next.name ? (void) 0 : find_next(), next.name)

void sapi_watch(const sapi_range *ranges, size_t count)
{
	image = ranges;
	image_count = count;
}

void hearth_watch_request(void)
{
	touched.what = 0;
	touched.mapping_count = 0;
	running_timers = 0;
	hearth_forget_semaphores();
	watching = image != NULL;
}

static void note(unsigned what)
{
	if (watching) {
		touched.what |= what;
	}
}

/* A call that a rewind cannot undo. */
static void spoil(const char *call)
{
	if (watching) {
		touched.what |= SAPI_TOUCHED_UNREWINDABLE;
		touched.call = call;
	}
}

sapi_touched *sapi_take_touched(void)
{
	if (watching && hearth_holds_semaphores()) {
		spoil("semop");
	}
	watching = false;
	return &touched;
}

/* Descriptors of the boot are open again after a rewind, with no lock that a request took. */
static void note_descriptor(int fd)
{
	if (fd <= touched.last_boot_fd) {
		note(SAPI_TOUCHED_FDS);
	}
}

/* {{{ Memory */

static uintptr_t round_up(uintptr_t address)
{
	return (address + PAGE_MASK) & ~PAGE_MASK;
}

/* Whether some of [start, end) belongs to the image. */
static bool in_image(uintptr_t start, uintptr_t end)
{
	size_t low = 0;
	size_t high = image_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uintptr_t from = (uintptr_t) image[middle].start;

		if (from >= end) {
			high = middle;
		} else if (from + image[middle].len <= start) {
			low = middle + 1;
		} else {
			return true;
		}
	}
	return false;
}

static void add_mapping(uintptr_t start, uintptr_t end)
{
	if (touched.mapping_count == SAPI_MAPPINGS) {
		touched.what |= SAPI_TOUCHED_MAPPINGS;
		return;
	}
	touched.mappings[touched.mapping_count].start = (void *) start;
	touched.mappings[touched.mapping_count].len = end - start;
	touched.mapping_count++;
}

/* [start, end) is no mapping of the request any more. */
static void forget_mapping(uintptr_t start, uintptr_t end)
{
	size_t i = touched.mapping_count;

	while (i-- > 0) {
		sapi_range *mapping = &touched.mappings[i];
		uintptr_t from = (uintptr_t) mapping->start;
		uintptr_t to = from + mapping->len;

		if (to <= start || from >= end) {
			continue;
		}
		*mapping = touched.mappings[--touched.mapping_count];
		if (from < start) {
			add_mapping(from, start);
		}
		if (end < to) {
			add_mapping(end, to);
		}
	}
}

static void note_mapping(void *at, size_t len)
{
	uintptr_t start = (uintptr_t) at;

	if (watching && at != MAP_FAILED) {
		forget_mapping(start, round_up(start + len));
		add_mapping(start, round_up(start + len));
	}
}

VISIBLE void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
	void *result;

	if (watching && (flags & MAP_FIXED) && in_image((uintptr_t) at, round_up((uintptr_t) at + len))) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	result = (void *) syscall(SYS_mmap, at, len, protection, flags, fd, offset);
	note_mapping(result, len);
	return result;
}

VISIBLE void *mmap64(void *at, size_t len, int protection, int flags, int fd, off64_t offset)
{
	return mmap(at, len, protection, flags, fd, offset);
}

VISIBLE int munmap(void *at, size_t len)
{
	uintptr_t start = (uintptr_t) at;
	uintptr_t end = round_up(start + len);

	if (watching && in_image(start, end)) {
		/* The image keeps it; nobody who has given it back looks there again. */
		return 0;
	}
	if (watching) {
		forget_mapping(start, end);
	}
	return (int) syscall(SYS_munmap, at, len);
}

VISIBLE void *mremap(void *at, size_t old_len, size_t len, int flags, ...)
{
	uintptr_t start = (uintptr_t) at;
	void *target = NULL;
	void *result;

	if (flags & MREMAP_FIXED) {
		va_list list;

		va_start(list, flags);
		target = va_arg(list, void *);
		va_end(list);
	}
	if (watching && (in_image(start, round_up(start + old_len))
			|| (target && in_image((uintptr_t) target, round_up((uintptr_t) target + len))))) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	result = (void *) syscall(SYS_mremap, at, old_len, len, flags, target);
	if (watching && result != MAP_FAILED) {
		forget_mapping(start, round_up(start + old_len));
		note_mapping(result, len);
	}
	return result;
}

/* Memory that is given back must read as zero where it was anonymous; writing that is what a rewind can see. */
VISIBLE int madvise(void *at, size_t len, int advice)
{
	if (watching && in_image((uintptr_t) at, round_up((uintptr_t) at + len))) {
		if (advice == MADV_DONTNEED) {
			memset(at, 0, round_up(len));
			return 0;
		}
		if (advice == MADV_FREE || advice == MADV_REMOVE) {
			return 0;
		}
	}
	return (int) syscall(SYS_madvise, at, len, advice);
}

VISIBLE int mprotect(void *at, size_t len, int protection)
{
	if (watching && in_image((uintptr_t) at, round_up((uintptr_t) at + len))) {
		spoil("mprotect");
	}
	return (int) syscall(SYS_mprotect, at, len, protection);
}
/* }}} */

/* {{{ The process */

VISIBLE int chdir(const char *path)
{
	note(SAPI_TOUCHED_DIRECTORY);
	return (int) syscall(SYS_chdir, path);
}

VISIBLE int fchdir(int fd)
{
	note(SAPI_TOUCHED_DIRECTORY);
	return (int) syscall(SYS_fchdir, fd);
}

VISIBLE mode_t umask(mode_t mask)
{
	note(SAPI_TOUCHED_UMASK);
	return (mode_t) syscall(SYS_umask, mask);
}

VISIBLE int setitimer(__itimer_which_t which, const struct itimerval *new_value, struct itimerval *old_value)
{
	/* Most timers are stopped by whoever has started them. */
	if (new_value && (new_value->it_value.tv_sec || new_value->it_value.tv_usec)) {
		running_timers |= 1u << which;
	} else {
		running_timers &= ~(1u << which);
	}
	touched.what &= ~SAPI_TOUCHED_TIMERS;
	if (running_timers) {
		note(SAPI_TOUCHED_TIMERS);
	}
	return (int) syscall(SYS_setitimer, which, new_value, old_value);
}

VISIBLE unsigned alarm(unsigned seconds)
{
	struct itimerval value = { { 0, 0 }, { (time_t) seconds, 0 } };
	struct itimerval old = { { 0, 0 }, { 0, 0 } };

	if (setitimer(ITIMER_REAL, &value, &old) != 0) {
		return 0;
	}
	return (unsigned) old.it_value.tv_sec + (old.it_value.tv_usec != 0);
}

VISIBLE int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	if (action && hearth_is_ours(number) && !hearth_is_our_handler(action)) {
		errno = EINVAL;
		return -1;
	}
	if (action) {
		note(SAPI_TOUCHED_SIGNALS);
	}
	return NEXT(sigaction)(number, action, old);
}

VISIBLE void (*signal(int number, void (*handler)(int)))(int)
{
	if (hearth_is_ours(number)) {
		errno = EINVAL;
		return SIG_ERR;
	}
	note(SAPI_TOUCHED_SIGNALS);
	return NEXT(signal)(number, handler);
}

VISIBLE int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t permitted;

	if (set) {
		note(SAPI_TOUCHED_MASK);
		if (how != SIG_UNBLOCK) {
			permitted = *set;
			hearth_leave_ours_out(&permitted);
			set = &permitted;
		}
	}
	/* NSIG / 8: the size of the kernel's set. */
	return (int) syscall(SYS_rt_sigprocmask, how, set, old, (size_t) 8);
}

VISIBLE int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return sigprocmask(how, set, old) == 0 ? 0 : errno;
}

static bool is_lock(int command)
{
	return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

/*
 * Flags belong to the open file, which may have another name among the descriptors of the boot. All commands take
 * either no argument or one word.
 */
VISIBLE int fcntl(int fd, int command, ...)
{
	void *argument;
	va_list list;

	va_start(list, command);
	argument = va_arg(list, void *);
	va_end(list);
	if (command == F_SETFL) {
		note(SAPI_TOUCHED_FDS);
	} else if (command == F_SETFD || is_lock(command)) {
		note_descriptor(fd);
	}
	return (int) syscall(SYS_fcntl, fd, command, argument);
}

VISIBLE int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

VISIBLE int flock(int fd, int operation)
{
	note_descriptor(fd);
	return (int) syscall(SYS_flock, fd, operation);
}

VISIBLE int close(int fd)
{
	note_descriptor(fd);
	return (int) syscall(SYS_close, fd);
}

VISIBLE int dup2(int from, int to)
{
	/* dup3() refuses what dup2() takes for a question. */
	if (from == to) {
		return fcntl(from, F_GETFD) < 0 ? -1 : to;
	}
	return dup3(from, to, 0);
}

VISIBLE int dup3(int from, int to, int flags)
{
	note_descriptor(to);
	return (int) syscall(SYS_dup3, from, to, flags);
}
/* }}} */

/* {{{ Processes: those that share memory with this one until they run their program write where nobody counts it */

void hearth_note_child(void)
{
	note(SAPI_TOUCHED_CHILDREN);
}

VISIBLE FILE *popen(const char *command, const char *mode)
{
	hearth_note_child();
	return NEXT(popen)(command, mode);
}

VISIBLE int system(const char *command)
{
	hearth_note_child();
	return NEXT(system)(command);
}

VISIBLE int posix_spawn(SPAWN_PARAMETERS)
{
	hearth_note_child();
	return NEXT(posix_spawn)(process, file, actions, attributes, arguments, environment);
}

VISIBLE int posix_spawnp(SPAWN_PARAMETERS)
{
	hearth_note_child();
	return NEXT(posix_spawnp)(process, file, actions, attributes, arguments, environment);
}
/* }}} */

/* {{{ What a rewind cannot undo: the worker is replaced after the request */

VISIBLE int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	note(SAPI_TOUCHED_THREADS);
	return NEXT(pthread_create)(thread, attributes, run, argument);
}

VISIBLE int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
	spoil("timer_create");
	return NEXT(timer_create)(clock, event, timer);
}

VISIBLE int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	spoil("setrlimit");
	return (int) syscall(SYS_setrlimit, resource, limit);
}

VISIBLE int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
	spoil("setrlimit");
	return (int) syscall(SYS_setrlimit, resource, limit);
}

VISIBLE int setpriority(__priority_which_t which, id_t who, int priority)
{
	spoil("setpriority");
	return (int) syscall(SYS_setpriority, which, who, priority);
}

/* The C library's nice() and initgroups() call setpriority() and setgroups() where nobody sees it. */
VISIBLE int nice(int increment)
{
	spoil("nice");
	return NEXT(nice)(increment);
}

VISIBLE int initgroups(const char *user, gid_t group)
{
	spoil("initgroups");
	return NEXT(initgroups)(user, group);
}

VISIBLE int sched_setaffinity(pid_t process, size_t size, const cpu_set_t *processors)
{
	spoil("sched_setaffinity");
	return (int) syscall(SYS_sched_setaffinity, process, size, processors);
}

VISIBLE int setns(int fd, int kind)
{
	spoil("setns");
	return (int) syscall(SYS_setns, fd, kind);
}

VISIBLE int chroot(const char *path)
{
	spoil("chroot");
	return (int) syscall(SYS_chroot, path);
}

VISIBLE int unshare(int flags)
{
	spoil("unshare");
	return (int) syscall(SYS_unshare, flags);
}

/* The C library does these for all threads; there is one. */
#define CREDENTIAL(name, declaration, ...) \
	VISIBLE int name declaration \
	{ \
		spoil(#name); \
		return (int) syscall(SYS_##name, __VA_ARGS__); \
	}

CREDENTIAL(setuid, (uid_t user), user)
CREDENTIAL(setgid, (gid_t group), group)
CREDENTIAL(setreuid, (uid_t real, uid_t effective), real, effective)
CREDENTIAL(setregid, (gid_t real, gid_t effective), real, effective)
CREDENTIAL(setresuid, (uid_t real, uid_t effective, uid_t saved), real, effective, saved)
CREDENTIAL(setresgid, (gid_t real, gid_t effective, gid_t saved), real, effective, saved)
CREDENTIAL(setgroups, (size_t count, const gid_t *groups), count, groups)
CREDENTIAL(setsid, (void), 0)
CREDENTIAL(setpgid, (pid_t process, pid_t group), process, group)

VISIBLE int seteuid(uid_t user)
{
	return setresuid((uid_t) -1, user, (uid_t) -1);
}

VISIBLE int setegid(gid_t group)
{
	return setresgid((gid_t) -1, group, (gid_t) -1);
}
/* }}} */

/*
 * PHP loads extensions with RTLD_DEEPBIND where it can. Such a library binds to the C library directly, and none of
 * the above would be seen of it.
 */
VISIBLE void *dlopen(const char *file, int mode)
{
	return NEXT(dlopen)(file, mode & ~RTLD_DEEPBIND);
}
