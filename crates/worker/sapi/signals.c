/*
 * Which signals are the host's, and what becomes of a wait that one of them
 * interrupts. What stands in front of the C library (interpose.c, waits.c)
 * needs no more than this; it is linked where PHP is not.
 *
 * Runs in: worker. Called by: ask.c, interpose.c, waits.c.
 */
#include "context.h"

static int look_signal, end_signal;
static void (*handler)(int number, siginfo_t *info, void *context);
/* Since the last wait began. */
static volatile sig_atomic_t looked;

volatile uint64_t hearth_limit_ms;

void hearth_own_signals(int look, int end, void (*with)(int, siginfo_t *, void *))
{
	look_signal = look;
	end_signal = end;
	handler = with;
}

bool hearth_is_ours(int number)
{
	return number && (number == look_signal || number == end_signal);
}

bool hearth_is_our_handler(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == handler;
}

void hearth_leave_ours_out(sigset_t *set)
{
	if (look_signal) {
		(void) sigdelset(set, look_signal);
		(void) sigdelset(set, end_signal);
	}
}

void hearth_has_looked(void)
{
	looked = 1;
}

void hearth_wait_begins(void)
{
	looked = 0;
}

hearth_wait hearth_wait_interrupted(void)
{
	bool goes_on = looked;

	looked = 0;
	if (hearth_limit_ms) {
		return WAIT_ENDS;
	}
	return goes_on ? WAIT_GOES_ON : WAIT_INTERRUPTED;
}
