/* The same figures under the names that routers and dashboards already know: vLLM's, which are those that the
 * Kubernetes gateway's Model Server Protocol recommends (gateway-api-inference-extension, proposal 003):
 * queued and running requests, the share of the cache in use, its blocks; and, where ours have an equal,
 * vLLM's counters of tokens, prefix hits and speculative decoding. */
#include <stdio.h>

#include "streams/service/metrics.h"

#define ROWS(out, label, rows) metrics_rows(out, "vllm:", label, rows, (int)(sizeof(rows) / sizeof *(rows)))

static void put_label(struct text* out, const char* value) {
	text_put(out, "model_name=\"");
	for (; *value; value++)
		if (*value == '\n')
			text_put(out, "\\n");
		else
			text_print(out, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
	text_put(out, "\"");
}

static void write_cache(struct text* out, const char* label, const struct metrics_now* now) {
	const double used = now->cache_tokens > 0 ? (double)now->cache_used / (double)now->cache_tokens : 0;
	char blocks[96];
	snprintf(blocks, sizeof blocks, "block_size=\"%d\",num_gpu_blocks=\"%lld\"", now->cache_block,
	         now->cache_block > 0 ? (long long)(now->cache_tokens / now->cache_block) : 0);
	const struct metric_row rows[] = {
	    {"num_requests_waiting", NULL, "Generations that wait for a session.", now->queue},
	    {"num_requests_running", NULL, "Generations that run.", now->busy},
	    {"kv_cache_usage_perc", NULL, "Share of the cache that running generations fill, 0 to 1.", used},
	    {"gpu_cache_usage_perc", NULL, "The same under its older name.", used},
	    {"cache_config_info", blocks, "The cache: tokens a block, in which prefixes are kept, and blocks.",
	     1}};
	ROWS(out, label, rows);
}

void metrics_standard(const struct metrics* m, const struct metrics_now* now, struct text* out) {
	struct text model = {0};
	put_label(&model, now->model);
	const char* label = model.data ? model.data : "";
	const struct metric_row rows[] = {
	    {"request_success_total", "finished_reason=\"stop\"", "Generations ended, by how.",
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
	    {"spec_decode_num_accepted_tokens_total", NULL, "Draft tokens kept by verification.",
	     (double)m->accepted}};
	if (!now->of_owner)
		write_cache(out, label, now);
	ROWS(out, label, rows);
	out->failed |= model.failed;
	text_free(&model);
}
