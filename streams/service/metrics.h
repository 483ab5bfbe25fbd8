/* Counters of the service; server_metrics.c exports them. */
#pragma once

#include <pthread.h>

#include "swiftlet.h"

enum { METRIC_ROUTES = 48, METRIC_STATUSES = 16, METRIC_BUCKETS = 12 };

/* Seconds to the first token: upper bounds of the histogram. */
extern const double metrics_bound[METRIC_BUCKETS];

struct metrics {
	pthread_mutex_t lock;
	const char* route[METRIC_ROUTES]; /* static strings, in order of appearance */
	int64_t requests[METRIC_ROUTES][METRIC_STATUSES];
	int status[METRIC_STATUSES];
	int n_routes, n_statuses;
	int64_t ended[5]; /* by enum swiftlet_stop */
	int64_t prompt_tokens, cached_tokens, tokens, draft_steps, accepted, rounds, round_tokens, full_passes;
	int64_t optimize_steps, idle_steps, failures, lost_rounds;
	double idle_seconds;
	double prefill, draft, verify, plain, optimize, other, decode;
	struct {
		int64_t rows, accepted;
		double predicted;
	} source[SWIFTLET_SOURCES]; /* of swiftlet_figures */
	double saved, lost;         /* seconds in rounds that gained time, and in rounds that lost it */
	double matchness, expected_speedup, read; /* of the last generation that had them; NaN before */
	double draft_weights;                     /* the share of them that is made; NaN: there are none */
	int64_t first_token[METRIC_BUCKETS + 1];
	double first_token_sum;
};

void metrics_open(struct metrics*);
void metrics_close(struct metrics*);
/* route: a static string ("/v1/completions"), never a client's text. */
void metrics_request(struct metrics*, const char* route, int status);
/* Counts a generation that ended; seconds from its request to its first token (NaN: there was none). */
void metrics_generation(struct metrics*, const struct swiftlet_figures*, double first_token);
/* Counts masks that were scored while idle, and the time that took. */
void metrics_idle(struct metrics*, int steps, double seconds);
/* Sets the share of the draft weights that is made; NaN: there are none. */
void metrics_draft_weights(struct metrics*, double made);
void metrics_failure(struct metrics*);
