/* Runs one request to its end, keeps its ids and text, and shows them as they come. */
#pragma once

#include <stdio.h>

#include "kernels/backend.h"
#include "streams/text.h"
#include "tools/program/runtime.h"

struct completion {
	/* in */
	FILE* show;                     /* text as it is accepted, or NULL */
	void (*on_step)(void* on_user); /* between steps, or NULL */
	void* on_user;
	struct memory_watch* watch; /* streams/memory/memory.h: follows each step; or NULL */
	/* out */
	struct token_list tokens;
	struct text text;
	struct swiftlet_figures figures;
};

/* Uses the sampling of the options; task may be NULL. */
struct swiftlet_request request_for(const struct swiftlet_options*, const int32_t* prompt, int n,
                                    int max_tokens, const char* task);
/* False with the error set, also when `show` cannot write. Ctrl-C (tools/program/interrupt.h) cancels the
 * request, which is no failure. */
bool completion_run(struct completion*, swiftlet_session*, const struct swiftlet_request*, struct error*);
void completion_free(struct completion*);

/* The result as a line of JSON (streams/report.h), malloc'd; id and task may be NULL. NULL on no memory. */
char* completion_report(const struct completion*, const struct runtime*, const char* id, const char* task);

/* One dim line for people: tokens, their speed, and why the text ended where it was cut; `longer` is how to
 * let it go on. */
void speed_print(FILE*, const struct swiftlet_figures*, const char* longer);
/* The figures in a few lines for people. */
void figures_print(FILE*, const struct swiftlet_figures*, enum swiftlet_method);
/* One line for each drafter: rows verified, tokens accepted, and expected over accepted tokens. Prints
 * nothing when nothing was drafted. */
void sources_print(FILE*, const struct swiftlet_figures*);
