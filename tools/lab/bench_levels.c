/* `swiftlet bench levels`: how often a draft step that leaves out input channels predicts the whole model's
 * next token, and what it costs.
 *
 * The whole model answers each prompt greedily. Then each row of the answer runs once as a draft step, with
 * the target's own keys and values before it, at each share of the draft weights read. Its choice is right if
 * it is the answer's next token (alpha, of one step). c is the time of a one-row draft step over that of a
 * plain step, measured in turns after the first prompt's answer; drafts choose among a quarter of the
 * vocabulary then. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/engine.h"
#include "kernels/clock.h"
#include "tools/lab/bench.h"
#include "tools/lab/state_texts.h"
#include "tools/program/interrupt.h"

enum { MOST_TOKENS = 128, TURNS = 15, MOST_WAYS = 8 };

/* One choice of levels. */
struct level_way {
	struct levels levels;
	double read; /* the share of the draft weights' bytes */
	int64_t right, rows;
	double seconds[TURNS];
};

struct levels_bench {
	struct bench_part part;
	const char *input, *kept;
	int most_prompts, most_tokens;
	struct prompt_list prompts;
	struct state_text* text; /* (prompts) */
	struct level_way way[MOST_WAYS];
	int n_ways;
	const struct draft_weights* quantized;
	struct mask layers;
	double plain[TURNS];
	uint64_t* list; /* bits (vocab) of the first quarter */
};

/* ---- levels --------------------------------------------------------------------------------- */

static double share_read(const struct levels_bench* b, const struct levels* levels) {
	const int blocks = b->part.bench.model->weights.shape.n_blocks;
	double read = 0, all = 0;
	for (int i = 0; i < blocks; i++)
		for (int k = 0; k < COLUMN_KINDS; k++) {
			const double bytes = (double)block_map_bytes(&b->quantized->columns.block[i].map[k]);
			all += bytes;
			read += bytes * (double)level_kept(levels, i, blocks, (enum column_kind)k);
		}
	return read / all;
}

/* kept: a share for each kind of map, the same in all blocks, or one for each kind and third of the blocks */
static void add_way(struct levels_bench* b, const double* kept, int n_kept) {
	struct level_way* way = &b->way[b->n_ways++];
	for (int d = 0; d < LEVEL_DEPTHS; d++)
		for (int k = 0; k < COLUMN_KINDS; k++) {
			const double left = 100 * (1 - kept[(d * COLUMN_KINDS + k) % n_kept]);
			way->levels.left_out[d][k] = (uint8_t)lround(fmin(LEVEL_MOST, fmax(0, left)));
		}
	way->read = share_read(b, &way->levels);
}

/* Multiples of the levels that drafts begin with, and those of the command line. */
static bool choose_levels(struct levels_bench* b, struct error* error) {
	static const double first[COLUMN_KINDS] = {0.5, 0.5, 0.5, 0.25}, times[] = {4, 1.4, 1.2, 1, 0.8, 0.6};
	double kept[LEVEL_DEPTHS * COLUMN_KINDS];
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		for (int k = 0; k < COLUMN_KINDS; k++)
			kept[k] = fmin(1, times[i] * first[k]);
		add_way(b, kept, COLUMN_KINDS);
	}
	if (!b->kept)
		return true;
	const int n = bench_read_numbers(b->kept, kept, LEVEL_DEPTHS * COLUMN_KINDS);
	if (n != COLUMN_KINDS && n != LEVEL_DEPTHS * COLUMN_KINDS)
		return error_set(error,
		                 "--kept is \"%s\"; four shares are expected, as in 0.5,0.5,0.5,0.25, or four for "
		                 "each third of the blocks",
		                 b->kept);
	add_way(b, kept, n);
	return true;
}

/* ---- measuring ------------------------------------------------------------------------------ */

static void take_draft(const struct levels_bench* b, const struct level_way* way, struct pass* pass) {
	pass->quantized = &b->layers;
	pass->levels = &way->levels;
}

/* The answer's rows; each is a segment that attends to the committed tokens before it. */
static bool judge_rows(struct levels_bench* b, struct level_way* way, const struct state_text* t,
                       struct error* error) {
	struct segment segment[MOST_TOKENS] = {{0}};
	int32_t parent[MOST_TOKENS];
	uint8_t want[MOST_TOKENS];
	struct result out[MOST_TOKENS];
	struct backend* backend = t->cache->backend;
	const int first = t->n_prompt - 1, n = t->n - t->n_prompt;
	for (int i = 0; i < n; i++) {
		segment[i] = (struct segment){.cache = t->cache, .base = first + i, .n = 1};
		parent[i] = -1;
		want[i] = WANT_TOKEN;
	}
	struct pass pass =
	    pass_over(segment, t->id + first, parent, 2 * backend->weights->shape.n_blocks, want, out);
	pass.n = pass.n_segments = n;
	pass.head = true;
	take_draft(b, way, &pass);
	if (!backend->run(backend, &pass, error))
		return false;
	backend->discard(t->cache);
	way->rows += n;
	for (int i = 0; i < n; i++)
		way->right += out[i].token == t->id[first + i + 1];
	return true;
}

/* Seconds of a one-row pass after the text; way NULL: a plain step. */
static bool time_step(const struct levels_bench* b, const struct state_text* t, const struct level_way* way,
                      double* seconds, struct error* error) {
	struct backend* backend = t->cache->backend;
	const uint64_t* allowed = b->list;
	const struct segment segment = {
	    .cache = t->cache, .base = t->cache->committed, .n = 1, .allowed = way ? &allowed : NULL};
	const uint8_t want = way ? WANT_TOKEN | WANT_TOP | WANT_GUESS : WANT_TOKEN;
	struct result out = {.top = 10};
	struct pass pass =
	    pass_over(&segment, &t->id[t->n - 1], NULL, 2 * backend->weights->shape.n_blocks, &want, &out);
	pass.head = true;
	if (way)
		take_draft(b, way, &pass);
	const double began = seconds_now();
	if (!backend->run(backend, &pass, error))
		return false;
	*seconds = seconds_now() - began;
	backend->discard(t->cache);
	return true;
}

static bool time_steps(struct levels_bench* b, const struct state_text* t, struct error* error) {
	for (int turn = 0; turn < TURNS; turn++) {
		if (!time_step(b, t, NULL, &b->plain[turn], error))
			return false;
		for (int i = 0; i < b->n_ways; i++)
			if (!time_step(b, t, &b->way[i], &b->way[i].seconds[turn], error))
				return false;
	}
	return true;
}

static bool measure_text(struct levels_bench* b, struct state_text* t, bool timed, struct error* error) {
	bool good = state_text_fill(&b->part.bench, t, error);
	for (int i = 0; good && i < b->n_ways; i++)
		good = judge_rows(b, &b->way[i], t, error);
	good = good && (!timed || time_steps(b, t, error));
	if (t->cache)
		t->cache->backend->cache_close(t->cache);
	t->cache = NULL;
	return good;
}

static void report_ways(struct levels_bench* b, cJSON* out) {
	cJSON* const list = cJSON_AddArrayToObject(out, "levels");
	const double plain = bench_median(b->plain, TURNS);
	cJSON_AddNumberToObject(out, "plain_seconds", plain);
	for (int i = 0; i < b->n_ways; i++) {
		struct level_way* way = &b->way[i];
		cJSON* const row = bench_json_row(list);
		double kept[LEVEL_DEPTHS * COLUMN_KINDS];
		bool alike = true;
		for (int k = 0; k < LEVEL_DEPTHS * COLUMN_KINDS; k++) {
			const int left = way->levels.left_out[k / COLUMN_KINDS][k % COLUMN_KINDS];
			kept[k] = 1 - left / 100.0;
			alike = alike && left == way->levels.left_out[0][k % COLUMN_KINDS];
		}
		cJSON_AddNumberToObject(row, "read", way->read);
		bench_json_numbers(row, "kept", kept, alike ? COLUMN_KINDS : LEVEL_DEPTHS * COLUMN_KINDS);
		cJSON_AddNumberToObject(row, "rows", (double)way->rows);
		cJSON_AddNumberToObject(row, "alpha", quotient((double)way->right, (double)way->rows));
		cJSON_AddNumberToObject(row, "c", quotient(bench_median(way->seconds, TURNS), plain));
	}
}

static bool measure_all(struct levels_bench* b, cJSON* out, struct error* error) {
	const struct runtime* const bench = &b->part.bench;
	bool head;
	b->quantized = engine_draft_weights(bench->engine);
	if (!b->quantized || !b->quantized->format.columns)
		return error_set(error, "%s has no draft weights by input channel here", bench->model->name);
	b->layers = draft_weights_sub_layers(b->quantized, &(struct mask){.word = {0}}, &head);
	const size_t words = ((size_t)bench->model->weights.shape.vocab + 63) / 64;
	b->text = calloc(MOST_PROMPTS, sizeof *b->text);
	b->list = calloc(words, sizeof *b->list);
	if (!b->text || !b->list)
		return error_set(error, "out of memory for the answers");
	memset(b->list, 0xff, (words + 3) / 4 * sizeof *b->list);
	if (!choose_levels(b, error) || !bench_prompts(bench, &b->prompts, b->input, b->most_tokens, error))
		return false;
	const int n = least(b->prompts.n, b->most_prompts);
	if (!state_texts_answer(bench, b->prompts.prompt, n, b->text, error))
		return false;
	for (int i = 0; i < n && !interrupted(); i++) {
		progress_show((double)i / n, "prompt %d of %d", i + 1, n);
		if (!measure_text(b, &b->text[i], i == 0, error))
			return false;
	}
	report_ways(b, out);
	return true;
}

static bool measure_levels(struct bench_part* part, cJSON* out, struct error* error) {
	struct levels_bench* b = (struct levels_bench*)part;
	const bool good = measure_all(b, out, error);
	state_texts_free(b->text, b->prompts.n);
	free(b->list);
	prompt_list_free(&b->prompts);
	return good;
}

/* Has the measured weights made before the first token. */
static int ask_for_weights(struct bench_part* part) {
	part->bench.options.draft_weights.bits = 4;
	return OPTIONS_GO_ON;
}

int bench_levels_main(int argc, char** argv) {
	struct levels_bench b = {.part = {.measure = measure_levels, .prepare = ask_for_weights},
	                         .most_prompts = 32,
	                         .most_tokens = 96};
	const struct command_option option[] = {
	    BENCH_OPTIONS(b.part),
	    TEXT("input", 'i', "FILE", "prompts, as `swiftlet stream` takes them (six of the program's own)",
	         &b.input),
	    COUNT("prompts", 'p', "N", "stop after N prompts", &b.most_prompts, 1, MOST_PROMPTS),
	    COUNT("tokens", 'n', "N", "generate at most N tokens an answer", &b.most_tokens, 2, MOST_TOKENS),
	    TEXT("kept", 0, "A,B,C,D",
	         "also measure these shares: of the input channels of attention, of its output, of the MLP and "
	         "of its last map; twelve numbers set them for each third of the blocks",
	         &b.kept),
	};
	struct command_line line = {
	    .name = "bench levels",
	    .usage = "MODEL [-i FILE] [--kept A,B,C,D] [options]",
	    .about =
	        "Measures draft steps that leave out input channels, by the share of the draft weights they "
	        "read: how\n"
	        "often one predicts the whole model's next token (alpha, of one step) and what it costs (c).",
	    .examples = "  swiftlet bench levels smollm2-135m -i streams/demo.jsonl -n 64\n"
	                "  swiftlet bench levels model.gguf --kept 0.4,0.5,0.4,0.2 --json",
	    OPTIONS(option),
	};
	return bench_part_main(&b.part, &line, argc, argv);
}
