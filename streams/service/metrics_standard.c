/* The same figures under the names that routers and dashboards already know: vLLM's, which are those that the
 * Kubernetes gateway's Model Server Protocol recommends (gateway-api-inference-extension, proposal 003):
 * queued and running requests, the share of the cache in use, its blocks; and, where ours have an equal,
 * vLLM's counters of tokens, prefix hits and speculative decoding. */
#include <inttypes.h>

#include "streams/service/metrics.h"

struct standard {
	struct text* out;
	const char* model;
};

static void label(struct text* out, const char* value) {
	text_put(out, "{model_name=\"");
	for (; *value; value++)
		if (*value == '\n')
			text_put(out, "\\n");
		else
			text_print(out, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
	text_put(out, "\"");
}

static void head(const struct standard* s, const char* name, const char* kind, const char* help) {
	text_print(s->out, "# HELP vllm:%s %s\n# TYPE vllm:%s %s\n", name, help, name, kind);
}

static void one(const struct standard* s, const char* name, const char* kind, const char* help,
                double value) {
	head(s, name, kind, help);
	text_print(s->out, "vllm:%s", name);
	label(s->out, s->model);
	text_print(s->out, "} %.10g\n", value);
}

static void write_cache(const struct standard* s, const struct metrics_now* now) {
	const double used = now->cache_tokens > 0 ? (double)now->cache_used / (double)now->cache_tokens : 0;
	one(s, "num_requests_waiting", "gauge", "Generations that wait for a session.", now->queue);
	one(s, "num_requests_running", "gauge", "Generations that run.", now->busy);
	one(s, "kv_cache_usage_perc", "gauge", "Share of the cache that running generations fill, 0 to 1.", used);
	one(s, "gpu_cache_usage_perc", "gauge", "The same under its older name.", used);
	head(s, "cache_config_info", "gauge",
	     "The cache: tokens a block, in which prefixes are kept, and blocks.");
	text_put(s->out, "vllm:cache_config_info");
	label(s->out, s->model);
	text_print(s->out, ",block_size=\"%d\",num_gpu_blocks=\"%" PRId64 "\"} 1\n", now->cache_block,
	           now->cache_block > 0 ? now->cache_tokens / now->cache_block : 0);
}

static void write_ended(const struct standard* s, const struct metrics* m) {
	static const char* const reason[] = {"stop", "length", "abort"};
	const int64_t ended[] = {m->ended[SWIFTLET_EOS] + m->ended[SWIFTLET_STOP], m->ended[SWIFTLET_LENGTH],
	                         m->ended[SWIFTLET_CANCELLED]};
	head(s, "request_success_total", "counter", "Generations ended, by how.");
	for (int i = 0; i < 3; i++) {
		text_put(s->out, "vllm:request_success_total");
		label(s->out, s->model);
		text_print(s->out, ",finished_reason=\"%s\"} %" PRId64 "\n", reason[i], ended[i]);
	}
}

void metrics_standard(const struct metrics* m, const struct metrics_now* now, struct text* out) {
	const struct standard s = {out, now->model};
	if (!now->of_owner)
		write_cache(&s, now);
	write_ended(&s, m);
	one(&s, "prompt_tokens_total", "counter", "Tokens of prompts.", (double)m->prompt_tokens);
	one(&s, "generation_tokens_total", "counter", "Tokens generated.", (double)m->tokens);
	one(&s, "prefix_cache_queries_total", "counter", "Tokens of prompts looked for in a cache.",
	    (double)m->prompt_tokens);
	one(&s, "prefix_cache_hits_total", "counter", "Tokens of prompts found in a cache.",
	    (double)m->cached_tokens);
	one(&s, "spec_decode_num_drafts_total", "counter", "Rounds with a draft step.", (double)m->rounds);
	one(&s, "spec_decode_num_draft_tokens_total", "counter", "Draft steps.", (double)m->draft_steps);
	one(&s, "spec_decode_num_accepted_tokens_total", "counter", "Draft tokens kept by verification.",
	    (double)m->accepted);
}
