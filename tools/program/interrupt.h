/* Ctrl-C and SIGTERM as a question one can ask between two steps. */
#ifndef SWIFTLET_TOOLS_PROGRAM_INTERRUPT_H
#define SWIFTLET_TOOLS_PROGRAM_INTERRUPT_H

#include <stdbool.h>

/* From now on the next SIGINT or SIGTERM is noted; one more ends the program as if nothing was here. */
void interrupt_watch(void);
bool interrupted(void);
/* Whether that was SIGTERM. */
bool terminated(void);

/* A write that waits for its reader goes on after the signal: what was accepted is printed. A read that waits
 * for input gives up, between a call with true and one with false. */
void interrupt_input(bool waits);

/* When a mapped file becomes shorter, or its disk fails, the program ends with a message that
 * names the model, and status 1. */
void interrupt_report_lost_file(const char* model);

#endif
