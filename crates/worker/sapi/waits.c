/*
 * Stands in front of those waits of the C library that a signal ends whatever
 * its handler says (signal(7)). A look at the stack must not be seen by who is
 * looked at: the wait goes on for the rest of its time. Where the request is
 * to end, the wait ends; poll() as if its time were over, since most callers
 * would only wait again after a signal.
 *
 * Any other signal is seen by the caller, as ever.
 *
 * Runs in: zygote | worker. Called by: everything in the process.
 */
#include "context.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))
/* NSIG / 8: the size of the kernel's set. */
#define MASK_SIZE ((size_t) 8)

/* Whether a wait that failed goes on. */
static bool goes_on(long result)
{
	return result < 0 && errno == EINTR && hearth_wait_interrupted() == WAIT_GOES_ON;
}

/* {{{ Sleeping. Until a point in time there is nothing to be subtracted; else the kernel says what is left. */

static int wait_until(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	struct timespec rest = *time;
	long result;

	hearth_wait_begins();
	do {
		result = syscall(SYS_clock_nanosleep, clock, flags, &rest, (flags & TIMER_ABSTIME) ? NULL : &rest);
	} while (goes_on(result));
	if (result < 0 && left && !(flags & TIMER_ABSTIME)) {
		*left = rest;
	}
	return (int) result;
}

VISIBLE int nanosleep(const struct timespec *time, struct timespec *left)
{
	return wait_until(CLOCK_MONOTONIC, 0, time, left);
}

/* Answers the error itself. */
VISIBLE int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	int saved = errno;
	int result = wait_until(clock, flags, time, left) == 0 ? 0 : errno;

	errno = saved;
	return result;
}

VISIBLE unsigned sleep(unsigned seconds)
{
	struct timespec time = { (time_t) seconds, 0 };
	struct timespec left = { 0, 0 };

	return nanosleep(&time, &left) == 0 ? 0 : (unsigned) left.tv_sec;
}

VISIBLE int usleep(useconds_t microseconds)
{
	struct timespec time = { (time_t) (microseconds / 1000000), (long) (microseconds % 1000000) * 1000 };

	return nanosleep(&time, NULL);
}
/* }}} */

/* {{{ Waiting for descriptors. The kernel writes back what is left of the time, and no events, when it was interrupted. */

static int wait_for(struct pollfd *fds, nfds_t count, struct timespec *time, const sigset_t *mask)
{
	long result;

	hearth_wait_begins();
	do {
		result = syscall(SYS_ppoll, fds, count, time, mask, MASK_SIZE);
	} while (goes_on(result));
	if (result < 0 && errno == EINTR && hearth_wait_interrupted() == WAIT_ENDS) {
		return 0;
	}
	return (int) result;
}

VISIBLE int poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
	struct timespec time = { milliseconds / 1000, (long) (milliseconds % 1000) * 1000000 };

	return wait_for(fds, count, milliseconds < 0 ? NULL : &time, NULL);
}

VISIBLE int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec time = { 0, 0 };

	if (timeout) {
		time = *timeout;
	}
	return wait_for(fds, count, timeout ? &time : NULL, mask);
}

/* What callers with checked buffers (_FORTIFY_SOURCE) use where the compiler could not check. */
VISIBLE int __poll_chk(struct pollfd *fds, nfds_t count, int milliseconds, size_t size)
{
	if (size / sizeof(*fds) < count) {
		abort();
	}
	return poll(fds, count, milliseconds);
}

static int wait_for_sets(int count, fd_set *sets[3], struct timespec *time, const sigset_t *mask)
{
	struct {
		const sigset_t *mask;
		size_t          size;
	} signals = { mask, MASK_SIZE };
	long result;

	hearth_wait_begins();
	do {
		result = syscall(SYS_pselect6, count, sets[0], sets[1], sets[2], time, &signals);
	} while (goes_on(result));
	return (int) result;
}

VISIBLE int select(int count, fd_set *readable, fd_set *writable, fd_set *other, struct timeval *timeout)
{
	fd_set *sets[] = { readable, writable, other };
	struct timespec time = { 0, 0 };
	int result;

	if (timeout) {
		if (timeout->tv_sec < 0 || timeout->tv_usec < 0) {
			errno = EINVAL;
			return -1;
		}
		time.tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000;
		time.tv_nsec = (timeout->tv_usec % 1000000) * 1000;
	}
	result = wait_for_sets(count, sets, timeout ? &time : NULL, NULL);
	if (timeout) {
		/* As Linux does it. */
		timeout->tv_sec = time.tv_sec;
		timeout->tv_usec = time.tv_nsec / 1000;
	}
	return result;
}

VISIBLE int pselect(int count, fd_set *readable, fd_set *writable, fd_set *other, const struct timespec *timeout,
	const sigset_t *mask)
{
	fd_set *sets[] = { readable, writable, other };
	struct timespec time = { 0, 0 };

	if (timeout) {
		time = *timeout;
	}
	return wait_for_sets(count, sets, timeout ? &time : NULL, mask);
}
/* }}} */
