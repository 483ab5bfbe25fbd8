/* Ctrl-C and SIGTERM as a question one can ask between two steps. */
#ifndef SWIFTLET_TOOLS_INTERRUPT_H
#define SWIFTLET_TOOLS_INTERRUPT_H

#include <stdbool.h>

/* From now on the next SIGINT or SIGTERM is noted; one more ends the program as if nothing was here. */
void interrupt_watch(void);
bool interrupted(void);

#endif
