/* Counting, and telling Prometheus. */
#include "streams/service/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Seconds to the first token: upper bounds of the histogram. */
static const double bound[METRIC_BUCKETS] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

void metrics_open(struct metrics* m) {
	memset(m, 0, sizeof *m);
	m->matchness = m->expected_speedup = NAN;
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
	m->rounds += f->rounds;
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
	if (isfinite(f->matchness))
		m->matchness = f->matchness;
	if (isfinite(f->expected_speedup))
		m->expected_speedup = f->expected_speedup;
	if (isfinite(first_token)) {
		int b = 0;
		while (b < METRIC_BUCKETS && first_token > bound[b])
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

void metrics_failure(struct metrics* m) {
	pthread_mutex_lock(&m->lock);
	m->failures++;
	pthread_mutex_unlock(&m->lock);
}

/* ---- the text ----------------------------------------------------------------------------- */

static void head(struct text* out, const char* name, const char* kind, const char* help) {
	text_print(out, "# HELP swiftlet_%s %s\n# TYPE swiftlet_%s %s\n", name, help, name, kind);
}

static void number(struct text* out, double value) {
	if (isnan(value))
		text_put(out, " NaN\n");
	else
		text_print(out, " %.10g\n", value);
}

static void gauge(struct text* out, const char* name, const char* help, double value) {
	head(out, name, "gauge", help);
	text_print(out, "swiftlet_%s", name);
	number(out, value);
}

static void counter(struct text* out, const char* name, const char* help, double value) {
	head(out, name, "counter", help);
	text_print(out, "swiftlet_%s", name);
	number(out, value);
}

static void labelled(struct text* out, const char* name, const char* label, const char* value, double v) {
	text_print(out, "swiftlet_%s{%s=\"%s\"}", name, label, value);
	number(out, v);
}

static double ratio(int64_t a, int64_t b) { return b > 0 ? (double)a / (double)b : (double)NAN; }

static void write_requests(const struct metrics* m, struct text* out) {
	head(out, "requests_total", "counter", "HTTP requests answered, by route and status.");
	for (int r = 0; r < m->n_routes; r++)
		for (int s = 0; s < m->n_statuses; s++)
			if (m->requests[r][s])
				text_print(out, "swiftlet_requests_total{route=\"%s\",status=\"%d\"} %" PRId64 "\n",
				           m->route[r], m->status[s], m->requests[r][s]);
	head(out, "generations_total", "counter", "Generations ended, by how.");
	for (int s = SWIFTLET_EOS; s <= SWIFTLET_CANCELLED; s++)
		labelled(out, "generations_total", "stop", swiftlet_stop_name((enum swiftlet_stop)s),
		         (double)m->ended[s]);
	counter(out, "failures_total", "Generations that the backend failed.", (double)m->failures);
}

/* Who drafted: candidates verified, kept, and expected to be kept. */
static void write_sources(const struct metrics* m, struct text* out) {
	static const char* const name[] = {"candidates_total", "candidates_accepted_total",
	                                   "candidates_expected_total"};
	static const char* const help[] = {"Draft candidates verified, by who proposed them.",
	                                   "Draft candidates kept, by who proposed them: tokens by source.",
	                                   "Draft candidates expected to be kept, by who proposed them."};
	for (int k = 0; k < 3; k++) {
		head(out, name[k], "counter", help[k]);
		for (int i = 0; swiftlet_source_name(i); i++)
			labelled(out, name[k], "source", swiftlet_source_name(i),
			         k == 0   ? (double)m->source[i].rows
			         : k == 1 ? (double)m->source[i].accepted
			                  : m->source[i].predicted);
	}
}

static void write_work(const struct metrics* m, struct text* out) {
	head(out, "tokens_total", "counter", "Tokens of prompts, those of them found in a cache, and generated.");
	labelled(out, "tokens_total", "kind", "prompt", (double)m->prompt_tokens);
	labelled(out, "tokens_total", "kind", "cached", (double)m->cached_tokens);
	labelled(out, "tokens_total", "kind", "generated", (double)m->tokens);
	head(out, "seconds_total", "counter", "Seconds spent, by phase.");
	labelled(out, "seconds_total", "phase", "prefill", m->prefill);
	labelled(out, "seconds_total", "phase", "draft", m->draft);
	labelled(out, "seconds_total", "phase", "verify", m->verify);
	labelled(out, "seconds_total", "phase", "plain", m->plain);
	labelled(out, "seconds_total", "phase", "optimize", m->optimize);
	labelled(out, "seconds_total", "phase", "other", m->other);
	counter(out, "draft_steps_total", "Draft steps.", (double)m->draft_steps);
	counter(out, "accepted_total", "Draft tokens kept by verification.", (double)m->accepted);
	counter(out, "rounds_total", "Rounds with a draft step.", (double)m->rounds);
	counter(out, "round_tokens_total", "Tokens emitted by those rounds.", (double)m->round_tokens);
	counter(out, "lost_rounds_total", "Rounds that took longer than plain steps for their tokens.",
	        (double)m->lost_rounds);
	counter(out, "saved_seconds_total", "Seconds that rounds took less than plain steps for their tokens.",
	        m->saved);
	counter(out, "lost_seconds_total", "Seconds that rounds took more than plain steps for their tokens.",
	        m->lost);
	counter(out, "full_passes_total", "Full passes after the prefill.", (double)m->full_passes);
	counter(out, "optimize_steps_total", "Masks scored by the search while it served.",
	        (double)m->optimize_steps);
	counter(out, "idle_optimize_steps_total", "Masks scored by the search while no request ran.",
	        (double)m->idle_steps);
	counter(out, "idle_seconds_total", "Seconds of learning while no request ran, at idle priority.",
	        m->idle_seconds);
}

static void write_quality(const struct metrics* m, struct text* out) {
	gauge(out, "mean_generated", "M: tokens a round, over all generations.",
	      ratio(m->round_tokens, m->rounds));
	gauge(out, "alpha", "Accepted over draft steps, over all generations.",
	      ratio(m->accepted, m->draft_steps));
	gauge(out, "matchness", "Of the mask that drafted last.", m->matchness);
	gauge(out, "speedup", "Expected speed-up of the last generation (SWIFT, Eq. 6).", m->expected_speedup);
	gauge(out, "tokens_per_second", "Generated tokens a second of decoding.",
	      m->decode > 0 ? (double)m->tokens / m->decode : (double)NAN);
	head(out, "time_to_first_token_seconds", "histogram", "From the request to its first token.");
	int64_t sum = 0;
	for (int b = 0; b < METRIC_BUCKETS; b++) {
		sum += m->first_token[b];
		text_print(out, "swiftlet_time_to_first_token_seconds_bucket{le=\"%g\"} %" PRId64 "\n", bound[b],
		           sum);
	}
	sum += m->first_token[METRIC_BUCKETS];
	text_print(out, "swiftlet_time_to_first_token_seconds_bucket{le=\"+Inf\"} %" PRId64 "\n", sum);
	text_print(out, "swiftlet_time_to_first_token_seconds_sum %.10g\n", m->first_token_sum);
	text_print(out, "swiftlet_time_to_first_token_seconds_count %" PRId64 "\n", sum);
}

static void write_now(const struct metrics_now* now, struct text* out) {
	gauge(out, "queue_length", "Generations that wait for a session.", now->queue);
	gauge(out, "queue_limit", "Generations that may wait.", now->queue_limit);
	gauge(out, "sessions", "Sessions there are.", now->sessions);
	gauge(out, "sessions_busy", "Sessions that generate.", now->busy);
	gauge(out, "connections", "Open connections.", now->connections);
	gauge(out, "up_seconds", "Seconds since the service began.", now->up_seconds);
	const struct memory_counts* k = &now->memory;
	const struct prompt_cache_counts* p = &now->prompts;
	counter(out, "prompt_cache_found_total", "Pages of prompts that were read from disk.", (double)p->found);
	counter(out, "prompt_cache_kept_total", "Pages of prompts that were written to disk.", (double)p->kept);
	counter(out, "prompt_cache_damaged_total", "Files of them that were refused.", (double)p->damaged);
	gauge(out, "prompt_cache_bytes", "Of pages of prompts on disk.", (double)p->bytes);
	counter(out, "mask_changes_total", "Times the search found a better mask or a stored one was taken up.",
	        (double)(k->improved + k->recalled));
	counter(out, "mask_recalls_total", "Times a stored mask was taken up.", (double)k->recalled);
	counter(out, "masks_settled_total", "Masks that held, so that their search rests.", (double)k->settled);
	counter(out, "drift_events_total", "Times acceptance fell and the search began anew.", (double)k->drifts);
	gauge(out, "bank_masks", "Masks in the bank.", k->entries);
	counter(out, "bank_evictions_total", "Masks that left the bank for want of room.", (double)k->evictions);
	gauge(out, "store_failed", "1 while the last write to the store failed.", k->store_failed);
	gauge(out, "store_away", "1 while the database that others share cannot be used.", k->store.away);
	gauge(out, "store_waiting", "Writes that wait for the database.", k->store.waiting);
	counter(out, "store_writes_total", "Writes that the database was told.", (double)k->store.stored);
	counter(out, "store_news_total", "Times that others' writes were taken in.", (double)k->store.generation);
}

void metrics_text(struct metrics* m, const struct metrics_now* now, struct text* out) {
	pthread_mutex_lock(&m->lock);
	write_requests(m, out);
	write_work(m, out);
	write_sources(m, out);
	write_quality(m, out);
	metrics_standard(m, now, out);
	pthread_mutex_unlock(&m->lock);
	if (!now->of_owner)
		write_now(now, out);
}
