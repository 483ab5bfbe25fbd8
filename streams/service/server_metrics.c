/* /metrics: counters and gauges in Prometheus' exposition format (version 0.0.4). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "streams/service/server_internal.h"

struct metric_row {
	const char *name, *label; /* its own; NULL: none */
	const char* help;         /* NULL: the previous row's name */
	double value;
};

/* A counter's name ends in _total; all others are gauges. */
static const char* kind_of(const char* name) {
	const size_t n = strlen(name), total = strlen("_total");
	return n > total && strcmp(name + n - total, "_total") == 0 ? "counter" : "gauge";
}

/* label: of all rows, in braces, or "". */
static void put_rows(struct text* out, const char* prefix, const char* label, const struct metric_row* row,
                     int n) {
	for (int i = 0; i < n; i++) {
		if (row[i].help)
			text_print(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, row[i].name, row[i].help, prefix,
			           row[i].name, kind_of(row[i].name));
		const char* own = row[i].label ? row[i].label : "";
		text_print(out, "%s%s", prefix, row[i].name);
		if (*label || *own)
			text_print(out, "{%s%s%s}", label, *label && *own ? "," : "", own);
		if (isnan(row[i].value))
			text_put(out, " NaN\n");
		else
			text_print(out, " %.10g\n", row[i].value);
	}
}

#define ROWS(out, prefix, label, rows)                                                                       \
	put_rows(out, prefix, label, rows, (int)(sizeof(rows) / sizeof *(rows)))

static void write_requests(const struct metrics* m, struct text* out) {
	const char* help = "HTTP requests answered, by route and status.";
	for (int r = 0; r < m->n_routes; r++)
		for (int s = 0; s < m->n_statuses; s++)
			if (m->requests[r][s]) {
				char label[160];
				snprintf(label, sizeof label, "route=\"%.120s\",status=\"%d\"", m->route[r], m->status[s]);
				const struct metric_row row = {"requests_total", label, help, (double)m->requests[r][s]};
				put_rows(out, "swiftlet_", "", &row, 1);
				help = NULL;
			}
	help = "Generations that ended, by reason.";
	for (int s = SWIFTLET_EOS; s <= SWIFTLET_CANCELLED; s++, help = NULL) {
		char label[64];
		snprintf(label, sizeof label, "stop=\"%s\"", swiftlet_stop_name((enum swiftlet_stop)s));
		const struct metric_row row = {"generations_total", label, help, (double)m->ended[s]};
		put_rows(out, "swiftlet_", "", &row, 1);
	}
}

/* Counters of each drafter: candidates verified, accepted, and expected to be accepted. */
static void write_sources(const struct metrics* m, struct text* out) {
	static const char* const name[][2] = {
	    {"candidates_total", "Draft candidates verified, by drafter."},
	    {"candidates_accepted_total", "Draft candidates accepted, by drafter."},
	    {"candidates_expected_total", "Draft candidates expected to be accepted, by drafter."}};
	for (int k = 0; k < 3; k++)
		for (int i = 0; swiftlet_source_name(i); i++) {
			const double counts[] = {(double)m->source[i].rows, (double)m->source[i].accepted,
			                         m->source[i].predicted};
			char label[64];
			snprintf(label, sizeof label, "source=\"%s\"", swiftlet_source_name(i));
			const struct metric_row row = {name[k][0], label, i ? NULL : name[k][1], counts[k]};
			put_rows(out, "swiftlet_", "", &row, 1);
		}
}

static void write_work(const struct metrics* m, struct text* out) {
	const struct metric_row rows[] = {
	    {"failures_total", NULL, "Generations that the backend failed.", (double)m->failures},
	    {"tokens_total", "kind=\"prompt\"",
	     "Tokens of prompts, prompt tokens found in a cache, and generated tokens.",
	     (double)m->prompt_tokens},
	    {"tokens_total", "kind=\"cached\"", NULL, (double)m->cached_tokens},
	    {"tokens_total", "kind=\"generated\"", NULL, (double)m->tokens},
	    {"seconds_total", "phase=\"prefill\"", "Seconds spent, by phase.", m->prefill},
	    {"seconds_total", "phase=\"draft\"", NULL, m->draft},
	    {"seconds_total", "phase=\"verify\"", NULL, m->verify},
	    {"seconds_total", "phase=\"plain\"", NULL, m->plain},
	    {"seconds_total", "phase=\"optimize\"", NULL, m->optimize},
	    {"seconds_total", "phase=\"other\"", NULL, m->other},
	    {"draft_steps_total", NULL, "Draft steps.", (double)m->draft_steps},
	    {"accepted_total", NULL, "Draft tokens that verification accepted.", (double)m->accepted},
	    {"rounds_total", NULL, "Rounds with a draft step.", (double)m->rounds},
	    {"round_tokens_total", NULL, "Tokens emitted by rounds with a draft step.", (double)m->round_tokens},
	    {"lost_rounds_total", NULL, "Rounds that took longer than plain steps for the same tokens.",
	     (double)m->lost_rounds},
	    {"saved_seconds_total", NULL, "Seconds that rounds saved over plain steps for the same tokens.",
	     m->saved},
	    {"lost_seconds_total", NULL, "Seconds that rounds lost against plain steps for the same tokens.",
	     m->lost},
	    {"full_passes_total", NULL, "Full passes after the prefill.", (double)m->full_passes},
	    {"optimize_steps_total", NULL, "Masks that the search scored while requests ran.",
	     (double)m->optimize_steps},
	    {"idle_optimize_steps_total", NULL, "Masks that the search scored while no request ran.",
	     (double)m->idle_steps},
	    {"idle_seconds_total", NULL, "Seconds of learning while no request ran, at idle priority.",
	     m->idle_seconds},
	    {"mean_generated", NULL, "M: mean number of tokens a round, over all generations.",
	     quotient((double)m->round_tokens, (double)m->rounds)},
	    {"alpha", NULL, "Accepted draft tokens over draft steps, over all generations.",
	     quotient((double)m->accepted, (double)m->draft_steps)},
	    {"draft_read", NULL,
	     "Share of the layers' weights that draft steps of the model read, in the last generation.", m->read},
	    {"draft_weights_made", NULL, "Share of the draft weights that has been made.", m->draft_weights},
	    {"matchness", NULL, "Matchness of the mask that drafted last.", m->matchness},
	    {"speedup", NULL, "Expected speed-up of the last generation (SWIFT, Eq. 6).", m->expected_speedup},
	    {"tokens_per_second", NULL, "Generated tokens per second of decoding.",
	     m->decode > 0 ? (double)m->tokens / m->decode : (double)NAN}};
	ROWS(out, "swiftlet_", "", rows);
}

static void write_first_tokens(const struct metrics* m, struct text* out) {
	static const char name[] = "swiftlet_time_to_first_token_seconds";
	int64_t sum = 0;
	text_print(out, "# HELP %s From the request to its first token.\n# TYPE %s histogram\n", name, name);
	for (int b = 0; b < METRIC_BUCKETS; b++)
		text_print(out, "%s_bucket{le=\"%g\"} %" PRId64 "\n", name, metrics_bound[b],
		           sum += m->first_token[b]);
	sum += m->first_token[METRIC_BUCKETS];
	text_print(out, "%s_bucket{le=\"+Inf\"} %" PRId64 "\n%s_sum %.10g\n%s_count %" PRId64 "\n", name, sum,
	           name, m->first_token_sum, name, sum);
}

static void write_now(struct server* s, const struct scheduler_now* now, struct text* out) {
	struct memory_counts k = {0};
	struct prompt_cache_counts p = {0}; /* on disk */
	if (s->option.work.memory)
		memory_counts(s->option.work.memory, &k);
	if (s->option.work.prompts)
		prompt_cache_count(s->option.work.prompts, &p);
	const struct metric_row rows[] = {
	    {"queue_length", NULL, "Requests that wait for a session.", now->queue},
	    {"queue_limit", NULL, "Requests that may wait.", s->option.work.queue},
	    {"sessions", NULL, "Sessions in all.", s->option.work.sessions},
	    {"sessions_busy", NULL, "Sessions that generate.", now->busy},
	    {"connections", NULL, "Open connections.", gate_present(s->gate)},
	    {"connections_pending", NULL, "Connections that have not sent a whole request head yet.",
	     gate_pending(s->gate)},
	    {"up_seconds", NULL, "Seconds since the service began.", seconds_now() - s->began},
	    {"prompt_cache_found_total", NULL,
	     "Pages of prompts, and states behind them, that were read from disk.", (double)p.found},
	    {"prompt_cache_kept_total", NULL,
	     "Pages of prompts, and states behind them, that were written to disk.", (double)p.kept},
	    {"prompt_cache_damaged_total", NULL, "Files of prompts that were damaged, and removed.",
	     (double)p.damaged},
	    {"prompt_cache_bytes", NULL, "Bytes of prompts on disk.", (double)p.bytes},
	    {"mask_changes_total", NULL,
	     "Times that the search found a better mask, or that a stored mask was taken up.",
	     (double)(k.improved + k.recalled)},
	    {"mask_recalls_total", NULL, "Times that a stored mask was taken up.", (double)k.recalled},
	    {"masks_settled_total", NULL, "Masks that have converged, so their search has stopped.",
	     (double)k.converged},
	    {"drift_events_total", NULL, "Times that acceptance drifted and the search started again.",
	     (double)k.drifts},
	    {"bank_masks", NULL, "Masks in the bank.", k.entries},
	    {"bank_evictions_total", NULL, "Masks that were dropped because the bank was full.",
	     (double)k.evictions},
	    {"store_failed", NULL, "1 while the last write to the store failed.", k.store_failed},
	    {"store_away", NULL, "1 while the database that replicas share cannot be used.", k.store.away},
	    {"store_waiting", NULL, "Writes that wait for the database.", k.store.waiting},
	    {"store_writes_total", NULL, "Writes that reached the database.", (double)k.store.stored},
	    {"store_news_total", NULL, "Times that other processes' writes were read.",
	     (double)k.store.generation}};
	ROWS(out, "swiftlet_", "", rows);
}

/* ---- standard names ------------------------------------------------------------------------ */

/* Metrics that routers and dashboards already know. They have vLLM's names, which the Kubernetes gateway's
 * Model Server Protocol recommends (gateway-api-inference-extension, proposal 003): queued and running
 * requests, the used share of the cache, its blocks; and vLLM's counters of tokens, prefix hits and
 * speculative decoding, where we have the same figures. */
static void put_label(struct text* out, const char* value) {
	text_put(out, "model_name=\"");
	for (; *value; value++)
		if (*value == '\n')
			text_put(out, "\\n");
		else
			text_print(out, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
	text_put(out, "\"");
}

static void write_cache(struct text* out, const char* label, const struct scheduler_now* now) {
	const int64_t tokens = now->cache_tokens;
	const double used = tokens > 0 ? (double)now->cache_used / (double)tokens : 0;
	char blocks[96];
	snprintf(blocks, sizeof blocks, "block_size=\"%d\",num_gpu_blocks=\"%lld\"", PREFILL_CHUNK,
	         (long long)(tokens / PREFILL_CHUNK));
	const struct metric_row rows[] = {
	    {"num_requests_waiting", NULL, "Requests that wait for a session.", now->queue},
	    {"num_requests_running", NULL, "Generations that run.", now->busy},
	    {"kv_cache_usage_perc", NULL, "Share of the cache that running generations fill, 0 to 1.", used},
	    {"gpu_cache_usage_perc", NULL, "kv_cache_usage_perc under its older name.", used},
	    {"cache_config_info", blocks,
	     "Tokens of a block of the cache, in which prefixes are kept, and number of blocks.", 1}};
	ROWS(out, "vllm:", label, rows);
}

/* now: NULL where it is left out. */
static void write_standard(const struct metrics* m, const char* model_name, const struct scheduler_now* now,
                           struct text* out) {
	struct text model = {0};
	put_label(&model, model_name);
	const char* label = model.data ? model.data : "";
	const struct metric_row rows[] = {
	    {"request_success_total", "finished_reason=\"stop\"", "Generations that ended, by reason.",
	     (double)(m->ended[SWIFTLET_EOS] + m->ended[SWIFTLET_STOP])},
	    {"request_success_total", "finished_reason=\"length\"", NULL, (double)m->ended[SWIFTLET_LENGTH]},
	    {"request_success_total", "finished_reason=\"abort\"", NULL, (double)m->ended[SWIFTLET_CANCELLED]},
	    {"prompt_tokens_total", NULL, "Tokens of prompts.", (double)m->prompt_tokens},
	    {"generation_tokens_total", NULL, "Tokens generated.", (double)m->tokens},
	    {"prefix_cache_queries_total", NULL, "Tokens of prompts looked for in a cache.",
	     (double)m->prompt_tokens},
	    {"prefix_cache_hits_total", NULL, "Tokens of prompts found in a cache.", (double)m->cached_tokens},
	    {"spec_decode_num_drafts_total", NULL, "Rounds with a draft step.", (double)m->rounds},
	    {"spec_decode_num_draft_tokens_total", NULL, "Draft steps.", (double)m->draft_steps},
	    {"spec_decode_num_accepted_tokens_total", NULL, "Draft tokens that verification accepted.",
	     (double)m->accepted}};
	if (now)
		write_cache(out, label, now);
	ROWS(out, "vllm:", label, rows);
	out->failed |= model.failed;
	text_free(&model);
}

/* An admin reads all metrics. Others read what their own requests did, without the server's present state. */
bool answer_metrics(struct http_call* c) {
	struct server* s = c->server;
	struct metrics* m = &s->metrics[c->admin ? 0 : c->tenant];
	struct scheduler_now now;
	struct text out = {0};
	scheduler_now(s->scheduler, &now);
	pthread_mutex_lock(&m->lock);
	write_requests(m, &out);
	write_work(m, &out);
	write_sources(m, &out);
	write_first_tokens(m, &out);
	write_standard(m, s->option.work.model_name, c->admin ? &now : NULL, &out);
	pthread_mutex_unlock(&m->lock);
	if (c->admin)
		write_now(s, &now, &out);
	return call_reply(c, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
}
