/* One generation as JSON: the object of `run --json` and of a line of `stream -o`, and the sums of
 * `stream --summary`. Figures that do not apply are null. */
#pragma once

#include "core/decode/options.h"
#include "streams/text.h"

struct report {
	const char* id;   /* JSON text as it came, or NULL: null */
	const char* task; /* or NULL */
	const char* model;
	const char* backend;
	enum swiftlet_method method;
	const int32_t* token; /* (n_tokens) emitted, a final EOS included */
	int n_tokens;
	const char* text; /* (text_size) */
	size_t text_size;
	const struct swiftlet_figures* figures;
};

/* One line of JSON without the newline, malloc'd; NULL on no memory. */
char* report_text(const struct report*);

/* {"id", "line", "error": {"message"}} for a line that failed; id as in struct report. */
char* report_error_text(const char* id, long line, const char* message);

/* The figures of a generation and "mask" {"attention", "mlp"} (null for SWIFTLET_VANILLA) as members without
 * the object's braces. The service gives them as `swiftlet`. */
void report_figures(struct text*, const struct swiftlet_figures*, enum swiftlet_method);

/* Speed over plain decoding: the time that plain steps would have taken, at their measured cost, over the
 * time taken. 1.6 is 60 % faster. NaN when nothing was measured to compare with. */
double figures_speedup(const struct swiftlet_figures*);

/* ---- sums over a stream -------------------------------------------------------------------- */

#define SUMMARY_NO_TASK "none" /* the row of instances without a label */

struct task_sum {
	char name[128];
	long instances;
	int64_t tokens, accepted, draft_steps, rounds, round_tokens, optimize_steps;
	double matchness; /* sum over those that have one */
	long matchness_n;
	double seconds; /* of decoding */
};

struct summary {
	struct task_sum* task; /* (n) in order of appearance */
	int n;
	struct task_sum total;
};

void summary_free(struct summary*);
/* Adds one generation; task may be NULL. False: out of memory. */
bool summary_add(struct summary*, const char* task, const struct swiftlet_figures*);
double task_sum_mean_generated(const struct task_sum*); /* M; NaN without rounds */
double task_sum_alpha(const struct task_sum*);
double task_sum_matchness(const struct task_sum*);
double task_sum_tokens_per_second(const struct task_sum*);
/* {"tasks": {NAME: {…}}, "total": {…}} */
void summary_put(struct text*, const struct summary*);
/* The same, malloc'd with a final newline; NULL on no memory. */
char* summary_text(const struct summary*);
