/* `swiftlet bench screened`: compares the screened head (kernels/cpu/screened_head.h) with the whole one on
 * text.
 *
 * Prompts are read as they are, up to 64 rows a pass. Both heads run on each row's state, for greedy tokens
 * in every other pass and for sampled ones in the rest. The bench counts tokens that differ, winners whose
 * logits differ in a bit, and, by their bits, how many of a row's logits were computed exactly. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "tools/lab/bench.h"
#include "tools/lab/state_texts.h"

struct screened {
	struct bench_part part;
	const char* input;
	struct prompt_list prompts;
	struct cache* cache;
	float* kept; /* (head_rows, vocab) the screened head's logits */
	int64_t most, passes;
	struct {
		int64_t positions;
		int64_t tokens, bits; /* that differ */
		int64_t exact, whole; /* logits; rows that had to be computed whole */
	} of[2];                  /* greedy, sampled */
};

static int64_t positions(const struct screened* c) { return c->of[0].positions + c->of[1].positions; }

/* Runs the head on pending rows [first, first + n), n at most head_rows. Its logits stay in the backend. */
static bool run_head(const struct screened* c, const struct sampler* sampler, int first, int n, uint8_t want,
                     struct result* out, struct error* error) {
	struct backend* backend = c->cache->backend;
	const int last = 2 * backend->weights->shape.n_blocks;
	uint8_t wants[SLICE_ROWS];
	const struct segment segment = {
	    .cache = c->cache, .base = c->cache->committed, .n = n, .sampler = sampler};
	memset(wants, want, sizeof wants);
	struct pass pass = pass_over(&segment, NULL, NULL, last, wants, out);
	pass.first = last;
	pass.row = state_text_rows + first;
	pass.head = true;
	return backend->run(backend, &pass, error);
}

static void compare_heads(struct screened* c, int kind, const struct result* screened,
                          const struct result* whole, int n) {
	const size_t vocab = (size_t)c->cache->backend->weights->shape.vocab;
	const float* logits = cpu_of(c->cache->backend)->logits;
	for (int i = 0; i < n; i++) {
		const float *a = c->kept + (size_t)i * vocab, *b = logits + (size_t)i * vocab;
		size_t exact = 0;
		for (size_t v = 0; v < vocab; v++)
			exact += memcmp(&a[v], &b[v], sizeof *a) == 0;
		c->of[kind].tokens += screened[i].token != whole[i].token;
		c->of[kind].bits += memcmp(&a[whole[i].token], &b[whole[i].token], sizeof *a) != 0;
		c->of[kind].exact += (int64_t)exact;
		c->of[kind].whole += exact == vocab;
	}
	c->of[kind].positions += n;
}

static bool judge_rows(struct screened* c, const int32_t* token, int n, struct error* error) {
	struct backend* backend = c->cache->backend;
	struct cpu_backend* cpu = cpu_of(backend);
	struct result screened[SLICE_ROWS], whole[SLICE_ROWS];
	const struct sampler draw = {.temperature = 0.8f, .top_p = 1, .sequence = (uint64_t)c->passes};
	const int kind = (int)(c->passes++ % 2);
	const struct sampler* sampler = kind ? &draw : NULL;
	const struct segment segment = {.cache = c->cache, .base = c->cache->committed, .n = n};
	const struct pass pass =
	    pass_over(&segment, token, NULL, 2 * backend->weights->shape.n_blocks, NULL, NULL);
	const size_t row = (size_t)backend->weights->shape.vocab * sizeof(float);
	if (!backend->run(backend, &pass, error))
		return false;
	for (int first = 0; first < n; first += cpu->head_rows) {
		const int rows = least(n - first, cpu->head_rows);
		cpu->screened.cost = cpu->screened.resting = 0; /* whether it pays is not asked */
		if (!run_head(c, sampler, first, rows, WANT_TOKEN, screened, error))
			return false;
		memcpy(c->kept, cpu->logits, (size_t)rows * row);
		if (!run_head(c, sampler, first, rows, WANT_TOKEN | WANT_LOG_SUM_EXP, whole, error))
			return false;
		compare_heads(c, kind, screened, whole, rows);
	}
	backend->commit(c->cache, state_text_rows, n);
	return true;
}

static bool judge(struct screened* c, struct error* error) {
	const struct runtime* bench = &c->part.bench;
	struct backend* backend = bench->engine->backend;
	if (backend->screened_bytes == 0 || strncmp(backend->name, "cpu", 3) != 0)
		return error_set(error, "%s has no screened head for this model", backend->name);
	if (!bench_prompts(bench, &c->prompts, c->input, INT32_MAX, error))
		return false;
	c->cache = backend->cache_open(backend, bench_context(bench), DTYPE_F16, error);
	c->kept =
	    malloc((size_t)cpu_of(backend)->head_rows * (size_t)backend->weights->shape.vocab * sizeof *c->kept);
	if (!c->cache || !c->kept)
		return c->cache ? error_set(error, "out of memory") : false;
	for (int i = 0; i < c->prompts.n && positions(c) < c->most; i++) {
		const struct prompt* p = &c->prompts.prompt[i];
		backend->truncate(c->cache, 0);
		c->cache->prompt_length = p->n;
		progress_show((double)positions(c) / (double)c->most, "text %d", i + 1);
		for (int first = 0; first < p->n; first += SLICE_ROWS)
			if (!judge_rows(c, p->id + first, least(p->n - first, SLICE_ROWS), error))
				return false;
	}
	return positions(c) > 0 || error_set(error, "no text to read");
}

static void report_figures(const struct screened* c, cJSON* out) {
	static const char* const kind[] = {"greedy", "sampled"};
	int64_t differing = 0;
	for (int k = 0; k < 2; k++) {
		const double n = (double)c->of[k].positions;
		cJSON* one = cJSON_AddObjectToObject(out, kind[k]);
		cJSON_AddNumberToObject(one, "positions", n);
		cJSON_AddNumberToObject(one, "tokens_differing", (double)c->of[k].tokens);
		cJSON_AddNumberToObject(one, "logits_differing", (double)c->of[k].bits);
		bench_json_number(one, "share_exact",
		                  (double)c->of[k].exact / n / c->cache->backend->weights->shape.vocab);
		bench_json_number(one, "share_whole", (double)c->of[k].whole / n);
		differing += c->of[k].tokens + c->of[k].bits;
	}
	cJSON_AddNumberToObject(out, "tokens_differing", (double)differing);
}

static int check_screened_head_options(struct bench_part* part) {
	part->bench.options.engine.screened_head = 1;
	return OPTIONS_GO_ON;
}

static bool measure_screened_head(struct bench_part* part, cJSON* out, struct error* error) {
	struct screened* c = (struct screened*)part;
	const bool good = judge(c, error);
	if (good)
		report_figures(c, out);
	if (c->cache)
		c->cache->backend->cache_close(c->cache);
	free(c->kept);
	prompt_list_free(&c->prompts);
	return good;
}

int bench_screened_head_main(int argc, char** argv) {
	struct screened c = {.part = {.prepare = check_screened_head_options, .measure = measure_screened_head},
	                     .most = INT64_MAX};
	const struct command_option option[] = {
	    BENCH_OPTIONS(c.part),
	    TEXT("input", 'i', "FILE", "texts, as the prompts that `swiftlet stream` takes", &c.input),
	    COUNT("positions", 'n', "N", "end with the text that reaches so many (all)", &c.most, 1, INT64_MAX),
	};
	struct command_line line = {
	    .name = "bench screened",
	    .usage = "MODEL [-i FILE] [-n N] [--json] [options]",
	    .about =
	        "Runs the exact screened head and the whole output head on every position of some texts,\n"
	        "every other 64 of them sampled. Counts tokens and winning logits that differ (exit status 1\n"
	        "if any does), and the share of logits that the screened head computes exactly.",
	    .examples = "  swiftlet bench screened -m model.gguf -i prompts.jsonl -n 100000 --threads 1",
	    OPTIONS(option),
	};
	return bench_part_main(&c.part, &line, argc, argv);
}
