/*
 * What the server asks of a worker in the midst of a request, by two signals:
 * to say where PHP stands (look), or to say so and end the request (end). The
 * first changes nothing for the script: system calls that it interrupts go on
 * (see waits.c for those that the kernel does not continue). The second ends
 * waits early, and raises a fatal error at the next instruction that may be
 * interrupted, so that shutdown functions run as after any other.
 *
 * The handler is the host's: scripts cannot replace or block it (interpose.c).
 * It has a stack of its own, so that it works wherever PHP is.
 *
 * Runs in: worker. Called by: php.rs, the kernel, the engine.
 */
#include "context.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Much more than the handler needs: a kernel with large registers (AVX-512, AMX) saves up to 11 KiB there. */
#define STACK_SIZE ((size_t) 64 << 10)
#define TEXT_SIZE ((size_t) 12 << 10)

/* In the executable's memory, so no rewind touches them. */
static char stack[STACK_SIZE] __attribute__((aligned(16)));
static char text[TEXT_SIZE];
/* The process that runs the request in this one's place, 0: none. */
static volatile pid_t deputy;
static int end_signal;

static void (*next_interrupt)(zend_execute_data *execute_data);

/* The engine keeps frame and instruction in these: ZEND_VM_FP_GLOBAL_REG in Zend/zend_execute.c (8.2). */
static void engine_registers(const ucontext_t *context, const void **frame, const void **op)
{
#if defined(__x86_64__)
	*frame = (const void *) context->uc_mcontext.gregs[REG_R14];
	*op = (const void *) context->uc_mcontext.gregs[REG_R15];
#elif defined(__aarch64__)
	*frame = (const void *) context->uc_mcontext.regs[27];
	*op = (const void *) context->uc_mcontext.regs[28];
#else
	*frame = *op = NULL;
#endif
}

static void answer(int number, siginfo_t *info, void *context)
{
	int saved = errno;
	const sapi_request *request = hearth.request;
	sapi_asked asked;

	if (deputy) {
		(void) kill(deputy, number);
	} else if (request && hearth.phase == PHASE_REQUEST && (pid_t) syscall(SYS_gettid) == getpid()) {
		hearth.host->asked(&asked);
		if (asked.request == request->id) {
			const void *frame, *op;

			engine_registers(context, &frame, &op);
			hearth.host->stack(asked.request, text, hearth_write_stack(text, sizeof(text), frame, op));
			if (number == end_signal) {
				hearth_limit_ms = asked.limit_ms;
				zend_atomic_bool_store_ex(&EG(vm_interrupt), true);
			}
		}
	}
	hearth_has_looked();
	errno = saved;
}

/*
 * As Zend/zend_execute_API.c zend_timeout() (8.2). The client has its answer, so nothing that the script still prints
 * is for anybody.
 */
static void interrupt(zend_execute_data *execute_data)
{
	uint64_t limit = hearth_limit_ms;

	if (limit && hearth.phase == PHASE_REQUEST) {
		bool seconds = limit % 1000 == 0;

		hearth_limit_ms = 0;
		PG(connection_status) |= PHP_CONNECTION_TIMEOUT;
		php_output_set_status(PHP_OUTPUT_DISABLED);
		zend_error_noreturn(E_ERROR, "request_timeout of " ZEND_ULONG_FMT " %s exceeded",
			(zend_ulong) (seconds ? limit / 1000 : limit), seconds ? "s" : "ms");
	}
	if (next_interrupt) {
		next_interrupt(execute_data);
	}
}

/* While modules start: the JIT's code for interrupts is made after that, and has none if nobody wants any. */
void hearth_ask_startup(void)
{
	next_interrupt = zend_interrupt_function;
	zend_interrupt_function = interrupt;
}

void sapi_answer(int look, int end)
{
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = answer;
	sigaddset(&action.sa_mask, look);
	sigaddset(&action.sa_mask, end);
	end_signal = end;
	hearth_own_signals(look, end, answer);
	(void) sigaltstack(&alternate, NULL);
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	(void) sigaction(look, &action, NULL);
	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	(void) sigaction(end, &action, NULL);
	/* Whatever the boot has done. */
	(void) sigprocmask(SIG_UNBLOCK, &action.sa_mask, NULL);
}

void sapi_depute(int process)
{
	deputy = process;
}
