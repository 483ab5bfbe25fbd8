/* Rounds as JSON lines. */
#include "tools/program/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/decode/lone.h"

bool trace_open(struct trace* trace, const char* path, const swiftlet_session* session, struct error* error) {
	*trace = (struct trace){.file = fopen(path, "w"), .path = path, .session = session};
	return trace->file || error_set(error, "%s could not be written: %s", path, strerror(errno));
}

static void write_chain(FILE* out, const struct round_trace* t) {
	fputs("\"draft\": [", out);
	for (int i = 0; i < t->steps; i++)
		fprintf(out, "%s%" PRId32, i > 0 ? ", " : "", t->step[i].token);
	fputs("], \"probability\": [", out);
	for (int i = 0; i < t->steps; i++)
		fprintf(out, "%s%.6g", i > 0 ? ", " : "", (double)t->step[i].max_probability);
	fprintf(out, "], \"stop\": \"%s\", ", t->why);
}

void trace_step(void* user) {
	struct trace* trace = user;
	struct round_trace t;
	session_trace(trace->session, &t);
	if (t.round <= trace->rounds)
		return;
	FILE* out = trace->file;
	fprintf(out, "{\"round\": %" PRId64 ", \"position\": %d, \"root\": %" PRId32 ", ", trace->rounds++,
	        t.position, t.tree->token[0]);
	write_chain(out, &t);
	fputs("\"rows\": [", out);
	for (int i = 0; i < t.tree->n; i++)
		fprintf(out, "%s[%" PRId32 ", %" PRId32 "]", i > 0 ? ", " : "", t.tree->token[i], t.tree->parent[i]);
	fprintf(out, "], \"accepted\": %d, \"bonus\": %" PRId32 "}\n", t.accepted, t.bonus);
}

bool trace_close(struct trace* trace, struct error* error) {
	const bool good = ferror(trace->file) == 0;
	return (fclose(trace->file) == 0 && good) ||
	       error_set(error, "%s could not be written: %s", trace->path, strerror(errno));
}
