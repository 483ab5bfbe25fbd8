/* Ctrl-C and SIGTERM as a question one can ask between two steps. */
#include "tools/program/interrupt.h"

#include <signal.h>
#include <string.h>

/* A signal handler has nowhere else to write. */
static volatile sig_atomic_t noted;

static void note(int number) {
	(void)number;
	noted = 1;
}

void interrupt_watch(void) {
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = note;
	action.sa_flags = (int)SA_RESETHAND | SA_RESTART;
	sigemptyset(&action.sa_mask);
	noted = 0;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

void interrupt_input(bool waits) {
	static const int number[] = {SIGINT, SIGTERM};
	for (int i = 0; i < 2; i++) {
		struct sigaction action;
		sigaction(number[i], NULL, &action);
		action.sa_flags = waits ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
		sigaction(number[i], &action, NULL);
	}
}

bool interrupted(void) { return noted != 0; }
