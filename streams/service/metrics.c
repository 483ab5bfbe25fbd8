/* Counting. */
#include "streams/service/metrics.h"

#include <math.h>
#include <string.h>

const double metrics_bound[METRIC_BUCKETS] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

void metrics_open(struct metrics* m) {
	memset(m, 0, sizeof *m);
	m->matchness = m->expected_speedup = m->read = m->draft_weights = NAN;
	pthread_mutex_init(&m->lock, NULL);
}

void metrics_close(struct metrics* m) { pthread_mutex_destroy(&m->lock); }

void metrics_request(struct metrics* m, const char* route, int status) {
	pthread_mutex_lock(&m->lock);
	int r = 0, s = 0;
	while (r < m->n_routes && strcmp(m->route[r], route) != 0)
		r++;
	while (s < m->n_statuses && m->status[s] != status)
		s++;
	if (r < METRIC_ROUTES && s < METRIC_STATUSES) {
		m->route[r] = route;
		m->status[s] = status;
		m->n_routes += r == m->n_routes;
		m->n_statuses += s == m->n_statuses;
		m->requests[r][s]++;
	}
	pthread_mutex_unlock(&m->lock);
}

void metrics_generation(struct metrics* m, const struct swiftlet_figures* f, double first_token) {
	pthread_mutex_lock(&m->lock);
	m->ended[f->stop]++;
	m->prompt_tokens += f->prompt_tokens;
	m->cached_tokens += f->cached_tokens;
	m->tokens += f->tokens;
	m->draft_steps += f->draft_steps;
	m->accepted += f->draft_accepted;
	m->rounds += f->verify_passes;
	m->round_tokens += f->round_tokens;
	m->full_passes += f->full_passes;
	m->lost_rounds += f->lost_rounds;
	m->saved += f->seconds_saved;
	m->lost += f->seconds_lost;
	for (int i = 0; i < SWIFTLET_SOURCES; i++) {
		m->source[i].rows += f->source[i].rows;
		m->source[i].accepted += f->source[i].accepted;
		m->source[i].predicted += f->source[i].predicted;
	}
	m->optimize_steps += f->optimize_steps;
	m->prefill += f->seconds.prefill;
	m->decode += f->seconds.decode;
	m->draft += f->seconds.draft;
	m->verify += f->seconds.verify;
	m->plain += f->seconds.plain;
	m->optimize += f->seconds.optimize;
	m->other += f->seconds.other;
	if (isfinite(f->read))
		m->read = f->read;
	if (isfinite(f->matchness))
		m->matchness = f->matchness;
	if (isfinite(f->expected_speedup))
		m->expected_speedup = f->expected_speedup;
	if (isfinite(first_token)) {
		int b = 0;
		while (b < METRIC_BUCKETS && first_token > metrics_bound[b])
			b++;
		m->first_token[b]++;
		m->first_token_sum += first_token;
	}
	pthread_mutex_unlock(&m->lock);
}

void metrics_idle(struct metrics* m, int steps, double seconds) {
	pthread_mutex_lock(&m->lock);
	m->idle_steps += steps;
	m->idle_seconds += seconds;
	pthread_mutex_unlock(&m->lock);
}

void metrics_draft_weights(struct metrics* m, double made) {
	pthread_mutex_lock(&m->lock);
	m->draft_weights = made;
	pthread_mutex_unlock(&m->lock);
}

void metrics_failure(struct metrics* m) {
	pthread_mutex_lock(&m->lock);
	m->failures++;
	pthread_mutex_unlock(&m->lock);
}
