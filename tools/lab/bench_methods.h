/* What `bench methods` measures, and its drawing. */
#ifndef SWIFTLET_TOOLS_LAB_BENCH_METHODS_H
#define SWIFTLET_TOOLS_LAB_BENCH_METHODS_H

#include "core/decode/method.h"

enum { BENCH_TASKS = 16, BENCH_ROWS = 64, CURVE = SWIFTLET_CTAR };

/* Sums over the prompts of one task, or all. */
struct method_sum {
	int prompts;
	int64_t tokens, timed_tokens, differing, rounds, round_tokens, draft_steps, accepted, full_passes;
	int64_t verify_passes, rows, ctar[CURVE];
	double seconds, draft_seconds;
	double* ratio; /* (prompts) tokens a second over plain's on the same prompt */
};

struct method_figures {
	double speedup;  /* median over prompts */
	double realized; /* all tokens over all seconds, over plain's */
	double mean_generated, alpha, compression_ratio, ctar[CURVE], rows, c, expected;
};

struct method_row {
	enum swiftlet_method method;
	enum swiftlet_stop_rule rule;
	bool whole;        /* verified from the first block on, though it drafts by an exit */
	char name[40];     /* of the method, with its stop rule and `whole` where these are asked for */
	char missing[300]; /* why it did not run; "" */
	size_t bytes;      /* of memory beside the model, its cache and plain decoding's needs */
	int exit_block;    /* of the last prompt; 0: none */
	struct method_sum task[BENCH_TASKS], all;
};

struct method_table {
	char model[128], backend[64];
	int tasks, prompts;
	char task[BENCH_TASKS][64];
	double plain_seconds; /* of a plain step */
	int rows;
	struct method_row row[BENCH_ROWS];
};

/* Bars of speed-up by method, a group a task, as an SVG file. False with the error set. */
bool plot_methods(const struct method_table*, const char* path, struct error*);
struct method_figures method_figures(const struct method_table*, const struct method_sum*);

#endif
