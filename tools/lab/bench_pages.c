/* `swiftlet bench pages`: how often a draft step whose attention reads few pages of a long text predicts the
 * whole model's next token, and what it costs.
 *
 * Each prompt is answered greedily by the whole model. Then the answer is walked row by row, as verification
 * does: before each row is committed, it runs as a draft step with every budget of pages, listed at every
 * distance, over the target's own keys and values; its choice is right where it is the answer's next token
 * (alpha, of one step). c is the time of such a step over that of a plain step, in turns behind the longest
 * answer. With --draft-bits drafts run with the quantized draft weights, too. */
#include <math.h>
#include <stdlib.h>

#include "core/decode/engine.h"
#include "kernels/clock.h"
#include "tools/lab/bench.h"
#include "tools/lab/state_texts.h"
#include "tools/program/interrupt.h"

enum { MOST_TOKENS = 256, TURNS = 15 };
static const int budgets[] = {4, 8, 16, 32}, distances[] = {8, 16};
enum { BUDGETS = sizeof budgets / sizeof *budgets, WAYS = 1 + 2 * BUDGETS };

/* A budget of pages (0: attention reads all), listed anew after so many tokens. */
struct page_way {
	int budget, distance;
	int listed_at; /* committed tokens; -1: not yet in this text */
	bool listed;
	struct page_list list;
	int32_t* page; /* (n_blocks, MAX_LISTED + 1) */
	int64_t right, rows, listed_rows;
	double seconds[TURNS];
};

struct pages_bench {
	struct bench_part part;
	const char* input;
	int most_prompts, most_tokens;
	struct prompt_list prompts;
	struct state_text* text; /* (prompts) */
	struct page_way way[WAYS];
	const struct draft_weights* quantized; /* NULL: drafts run with the stored weights */
	struct mask layers;
	bool head;
	double plain[TURNS];
	int64_t positions; /* the longest text's */
};

/* ---- a step --------------------------------------------------------------------------------- */

/* The pass of one row behind the committed text; way NULL: the whole model, whose attention is noted. */
static bool run_row(const struct pages_bench* b, const struct page_way* way, struct cache* cache,
                    const int32_t* token, int32_t* choice, struct error* error) {
	struct backend* backend = cache->backend;
	const struct segment segment = {.cache = cache,
	                                .base = cache->committed,
	                                .n = 1,
	                                .pages = way && way->listed ? &way->list : NULL,
	                                .noted = !way};
	const uint8_t want = WANT_TOKEN;
	struct result out = {0};
	struct pass pass = pass_over(&segment, token, NULL, 2 * backend->weights->shape.n_blocks, &want, &out);
	pass.head = true;
	if (way && b->quantized) {
		pass.quantized = &b->layers;
		pass.quantized_head = b->head;
		pass.levels = b->quantized->format.columns ? &b->part.bench.engine->levels : NULL;
	}
	if (!backend->run(backend, &pass, error))
		return false;
	*choice = out.token;
	return true;
}

static void list_anew(struct page_way* way, struct cache* cache) {
	if (way->budget == 0 || (way->listed_at >= 0 && cache->committed < way->listed_at + way->distance))
		return;
	way->listed = cache->backend->list_pages(cache, way->budget, way->page, &way->list);
	way->listed_at = cache->committed;
}

/* ---- measuring ------------------------------------------------------------------------------ */

static bool judge_row(struct pages_bench* b, struct cache* cache, const int32_t* token, struct error* error) {
	int32_t choice;
	for (int i = 0; i < WAYS; i++) {
		struct page_way* way = &b->way[i];
		list_anew(way, cache);
		if (!run_row(b, way, cache, token, &choice, error))
			return false;
		cache->backend->discard(cache);
		way->rows++;
		way->listed_rows += way->listed;
		way->right += choice == token[1];
	}
	if (!run_row(b, NULL, cache, token, &choice, error))
		return false;
	cache->backend->commit(cache, state_text_rows, 1);
	return true;
}

static bool time_steps(struct pages_bench* b, const struct state_text* t, struct error* error) {
	int32_t choice;
	for (int turn = 0; turn < TURNS; turn++)
		for (int i = -1; i < WAYS; i++) {
			const double began = seconds_now();
			if (!run_row(b, i < 0 ? NULL : &b->way[i], t->cache, &t->id[t->n - 1], &choice, error))
				return false;
			(i < 0 ? b->plain : b->way[i].seconds)[turn] = seconds_now() - began;
			t->cache->backend->discard(t->cache);
		}
	return true;
}

static bool measure_text(struct pages_bench* b, struct state_text* t, struct error* error) {
	int32_t ignored;
	t->cache = text_cache_open(&b->part.bench, bench_context(&b->part.bench), error);
	bool good = t->cache && state_text_prefill(t->cache, t->id, t->n_prompt, &ignored, error);
	for (int i = 0; i < WAYS; i++)
		b->way[i].listed_at = -1;
	for (int i = t->n_prompt; good && i < t->n - 1; i++)
		good = judge_row(b, t->cache, &t->id[i], error);
	if (good && t->n > b->positions) {
		b->positions = t->n;
		good = time_steps(b, t, error);
	}
	if (t->cache)
		t->cache->backend->cache_close(t->cache);
	t->cache = NULL;
	return good;
}

/* ---- the part ------------------------------------------------------------------------------- */

static void report_ways(struct pages_bench* b, cJSON* out) {
	const double plain = bench_median(b->plain, TURNS);
	cJSON_AddNumberToObject(out, "positions", (double)b->positions);
	cJSON_AddNumberToObject(out, "plain_seconds", plain);
	cJSON* const list = cJSON_AddArrayToObject(out, "pages");
	for (int i = 0; i < WAYS; i++) {
		struct page_way* way = &b->way[i];
		cJSON* const row = bench_json_row(list);
		cJSON_AddNumberToObject(row, "budget", way->budget ? (double)way->budget : NAN);
		cJSON_AddNumberToObject(row, "listed_every", way->budget ? (double)way->distance : NAN);
		cJSON_AddNumberToObject(row, "rows", (double)way->rows);
		cJSON_AddNumberToObject(row, "listed", (double)way->listed_rows);
		cJSON_AddNumberToObject(row, "alpha", quotient((double)way->right, (double)way->rows));
		cJSON_AddNumberToObject(row, "c", quotient(bench_median(way->seconds, TURNS), plain));
	}
}

static bool open_ways(struct pages_bench* b, struct error* error) {
	const struct runtime* const bench = &b->part.bench;
	const size_t blocks = (size_t)bench->model->weights.shape.n_blocks;
	for (int i = 0; i < WAYS; i++) {
		b->way[i].budget = i ? budgets[(i - 1) / 2] : 0;
		b->way[i].distance = distances[(i + 1) % 2];
		b->way[i].page = malloc(blocks * (MAX_LISTED + 1) * sizeof *b->way[i].page);
		if (!b->way[i].page)
			return error_set(error, "out of memory for lists of pages");
	}
	b->text = calloc(MOST_PROMPTS, sizeof *b->text);
	return b->text || error_set(error, "out of memory for the answers");
}

static bool measure_all(struct pages_bench* b, cJSON* out, struct error* error) {
	const struct runtime* const bench = &b->part.bench;
	if (!bench->engine->backend->list_pages)
		return error_set(error, "%s has no lists of pages", bench->engine->backend->name);
	b->quantized = bench->options.draft_weights.bits > 0 ? engine_draft_weights(bench->engine) : NULL;
	if (b->quantized)
		b->layers = draft_weights_sub_layers(b->quantized, &(struct mask){.word = {0}}, &b->head);
	if (!open_ways(b, error) || !bench_prompts(bench, &b->prompts, b->input, b->most_tokens, error))
		return false;
	const int n = least(b->prompts.n, b->most_prompts);
	for (int i = 0; i < n && !interrupted(); i++) {
		progress_show((double)i / n, "prompt %d of %d", i + 1, n);
		if (!state_texts_answer(bench, &b->prompts.prompt[i], 1, &b->text[i], error) ||
		    !measure_text(b, &b->text[i], error))
			return false;
	}
	report_ways(b, out);
	return true;
}

static bool measure_pages(struct bench_part* part, cJSON* out, struct error* error) {
	struct pages_bench* b = (struct pages_bench*)part;
	const bool good = measure_all(b, out, error);
	state_texts_free(b->text, b->prompts.n);
	for (int i = 0; i < WAYS; i++)
		free(b->way[i].page);
	prompt_list_free(&b->prompts);
	return good;
}

int bench_pages_main(int argc, char** argv) {
	struct pages_bench b = {.part = {.measure = measure_pages}, .most_prompts = 32, .most_tokens = 96};
	const struct command_option option[] = {
	    BENCH_OPTIONS(b.part),
	    TEXT("input", 'i', "FILE", "long prompts, as tools/long_prompts makes them", &b.input),
	    COUNT("prompts", 'p', "N", "stop after N prompts", &b.most_prompts, 1, MOST_PROMPTS),
	    COUNT("tokens", 'n', "N", "generate at most N tokens an answer", &b.most_tokens, 2, MOST_TOKENS),
	};
	struct command_line line = {
	    .name = "bench pages",
	    .usage = "MODEL [-i FILE] [-n N] [options]",
	    .about = "Measures draft steps whose attention reads few pages of a long text, by how many and how\n"
	             "often they are listed: how often one predicts the whole model's next token (alpha, of one\n"
	             "step) and what it costs (c).",
	    .examples = "  tools/long_prompts --tokens 4000 >long.jsonl\n"
	                "  swiftlet bench pages smollm2-135m -i long.jsonl --context 8192\n"
	                "  swiftlet bench pages model.gguf -i long.jsonl --draft-bits 4 --json",
	    OPTIONS(option),
	};
	return bench_part_main(&b.part, &line, argc, argv);
}
