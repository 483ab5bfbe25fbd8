/* The rounds of a generation as JSON lines, for comparison with references and for looking at:
 *
 *     {"round", "position", "root", "draft": [token…], "probability": […], "stop",
 *      "rows": [[token, parent]…], "accepted", "bonus"}
 *
 * position: of the root, the last token emitted before the round, in prompt and text; draft: the chain of
 * first choices with their probabilities; stop: why it ended (steps, threshold, end of text, limit of what
 * may be emitted, or that drafting was planned); rows: the verified tree, root first. */
#ifndef SWIFTLET_TOOLS_PROGRAM_TRACE_H
#define SWIFTLET_TOOLS_PROGRAM_TRACE_H

#include <stdio.h>

#include "kernels/backend.h"
#include "swiftlet.h"

struct trace {
	FILE* file;
	const char* path;
	const swiftlet_session* session;
	int64_t rounds; /* written */
};

bool trace_open(struct trace*, const char* path, const swiftlet_session*, struct error*);
/* After a step of the session; user: the trace. */
void trace_step(void* user);
/* False with the error set when the file could not be written. */
bool trace_close(struct trace*, struct error*);

#endif
