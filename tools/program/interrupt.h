/* Turns Ctrl-C and SIGTERM into a flag that is checked between two steps. */
#pragma once

#include <stdbool.h>

/* From now on the next SIGINT or SIGTERM sets the flag. One more ends the program as usual. A SIGTERM that
 * came before stays noted. The calling thread is the one that checks the flag. */
void interrupt_watch(void);
bool interrupted(void);
/* True if that was SIGTERM. */
bool terminated(void);

/* A blocked write continues after the signal, so that accepted text is printed. A blocked read returns,
 * between a call with true and one with false. */
void interrupt_input(bool waits);

/* While keys are hidden, the terminal on standard input shows neither ^C nor a text that is typed ahead. That
 * text waits for the next read. A second signal, which ends the program, shows them again first. */
void terminal_hide_keys(bool hide);

/* If a mapped file shrinks or its disk fails, the program ends with status 1 and a message that names the
 * model. */
void interrupt_report_lost_file(const char* model);
