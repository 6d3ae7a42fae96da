/*
 * Stands in front of semop(): what a request changes with SEM_UNDO is undone
 * by the kernel at the end of the process, and only then. A semaphore of the
 * boot is not freed with the request, so what it has acquired would stay so,
 * and the next request would wait for it for ever.
 *
 * Runs in: zygote | worker. Called by: sysvsem, and interpose.c.
 */
#include "context.h"

#include <sys/sem.h>
#include <sys/syscall.h>
#include <unistd.h>

/* More are as good as held. */
#define SEMAPHORES 16

static struct {
	int            set;
	unsigned short number;
	long           change;
} changed[SEMAPHORES];
static size_t changed_count;
static bool overrun;

void hearth_forget_semaphores(void)
{
	changed_count = 0;
	overrun = false;
}

bool hearth_holds_semaphores(void)
{
	size_t i;

	for (i = 0; i < changed_count; i++) {
		/* A set that was removed has nothing to undo. */
		if (changed[i].change != 0 && syscall(SYS_semctl, changed[i].set, changed[i].number, GETVAL, 0) >= 0) {
			return true;
		}
	}
	return overrun;
}

static void note_change(int set, const struct sembuf *operation)
{
	size_t i = 0;

	while (i < changed_count && (changed[i].set != set || changed[i].number != operation->sem_num)) {
		i++;
	}
	if (i == SEMAPHORES) {
		overrun = true;
		return;
	}
	if (i == changed_count) {
		changed[i].set = set;
		changed[i].number = operation->sem_num;
		changed[i].change = 0;
		changed_count++;
	}
	changed[i].change += operation->sem_op;
}

__attribute__((visibility("default"))) int semop(int set, struct sembuf *operations, size_t count)
{
	int result = (int) syscall(SYS_semop, set, operations, count);
	size_t i;

	for (i = 0; result == 0 && i < count; i++) {
		if (operations[i].sem_flg & SEM_UNDO) {
			note_change(set, &operations[i]);
		}
	}
	return result;
}
