/* Turns Ctrl-C and SIGTERM into a flag that is checked between two steps. */
#include "tools/program/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* A signal handler can only reach global variables. */
static volatile sig_atomic_t noted, hidden;
static struct termios usual; /* the terminal's settings while `hidden` */
static pthread_t watcher;    /* the thread that checks the flag and sets the terminal */

/* The kernel may choose any thread. Then the watcher would go on between the terminal's restoring and the
 * end, and could hide keys once more; and a read of its own would not be interrupted. */
static void note_signal(int number) {
	if (!pthread_equal(pthread_self(), watcher)) {
		pthread_kill(watcher, number);
		return;
	}
	if (noted) {
		terminal_hide_keys(false);
		signal(number, SIG_DFL);
		raise(number);
	}
	noted = number;
}

void interrupt_watch(void) {
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = note_signal;
	action.sa_flags = SA_RESTART;
	sigemptyset(&action.sa_mask);
	if (noted != SIGTERM)
		noted = 0;
	watcher = pthread_self();
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

bool terminated(void) { return noted == SIGTERM; }

void terminal_hide_keys(bool hide) {
	struct termios silent;
	if (hide && !hidden && tcgetattr(STDIN_FILENO, &usual) == 0) {
		silent = usual;
		silent.c_lflag &= ~(tcflag_t)ECHO;
		hidden = true;
		tcsetattr(STDIN_FILENO, TCSANOW, &silent);
	} else if (!hide && hidden) {
		tcsetattr(STDIN_FILENO, TCSANOW, &usual);
		hidden = false;
	}
}

/* ---- files that are lost ---------------------------------------------------------------------- */

static char lost[640];

static void end_with_sentence(int number, siginfo_t* info, void* context) {
	(void)context;
	terminal_hide_keys(false);
	if (info->si_code == BUS_ADRERR) {
		(void)!write(STDERR_FILENO, lost, strlen(lost));
		_exit(1);
	}
	signal(number, SIG_DFL);
	raise(number);
}

void interrupt_report_lost_file(const char* model) {
	struct sigaction action;
	snprintf(lost, sizeof lost,
	         "swiftlet: %.500s: a file of the model was cut short, or could not be read any more, while it "
	         "was in use\n",
	         model);
	memset(&action, 0, sizeof action);
	action.sa_sigaction = end_with_sentence;
	action.sa_flags = SA_SIGINFO;
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}
