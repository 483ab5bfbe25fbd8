/* What `bench methods` measures, and its drawing. */
#ifndef SWIFTLET_TOOLS_LAB_BENCH_METHODS_H
#define SWIFTLET_TOOLS_LAB_BENCH_METHODS_H

#include "core/decode/method.h"
#include "tools/lab/contest.h"

/* Of the prompts of one task, or all. */
struct method_figures {
	double speedup;  /* median over prompts */
	double realized; /* all tokens over all seconds, over plain's */
	double speed, mean_generated, alpha, compression_ratio, ctar[SWIFTLET_CTAR], rows, c, expected;
	int64_t tokens, differing;
};

/* A contender. */
struct method_row {
	enum swiftlet_method method;
	enum swiftlet_stop_rule rule;
	bool whole;        /* verified from the first block on, though it drafts by an exit */
	const char* name;  /* of the method, with its stop rule and `whole` where these are asked for */
	char missing[300]; /* why it did not run; "" */
	size_t bytes;      /* of memory beside the model, its cache and plain decoding's needs */
	struct method_figures task[MOST_TASKS], all;
};

struct method_table {
	const char *model, *backend;
	int tasks, rows;
	const char* const* task;
	double plain_seconds; /* of a plain step */
	struct method_row row[MOST_CONTENDERS];
};

/* Bars of speed-up by method, a group a task, as an SVG file. False with the error set. */
bool plot_methods(const struct method_table*, const char* path, struct error*);

#endif
