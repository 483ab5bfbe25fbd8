/* `swiftlet bench match-rate`: how often an exit's choices are the target's (PPD's Table 1).
 *
 * Each prompt is decoded plainly. Then its text's rows run once more from exit to exit. At each exit the
 * model's head, and the trained head if there is one, predict the next tokens. */
#include <stdlib.h>
#include <string.h>

#include "core/methods/exit_choice.h"
#include "tools/lab/bench.h"
#include "tools/lab/state_texts.h"
#include "tools/program/interrupt.h"

enum { POSITIONS = 4, ALL_ROWS = 128 };
static const int upto[POSITIONS] = {16, 32, 64, ALL_ROWS};

struct rates {
	int64_t hits[POSITIONS][TREE_RANKS];
};

struct match_bench {
	struct bench_part part;
	const char* input;
	int most_prompts;
	struct prompt_list prompts;
	struct state_text* text; /* (prompts) */
	struct cache *cache, *scratch;
	int exits, block[MAX_BLOCKS];
	int64_t rows[POSITIONS];
	struct rates own[MAX_BLOCKS], trained[MAX_BLOCKS]; /* by exit */
	/* work space of a text */
	struct result out[ALL_ROWS];
	uint8_t want[ALL_ROWS];
	float *state, *head_in; /* (ALL_ROWS, dim) */
};

static int bucket_of(int position) {
	int b = 0;
	while (b + 1 < POSITIONS && position >= upto[b])
		b++;
	return b;
}

static void count_matches(struct match_bench* b, struct rates* to, const int32_t* token, int n) {
	for (int i = 0; i < n; i++)
		for (int k = 0; k < b->out[i].top; k++)
			if (b->out[i].top_token[k] == token[i + 1]) {
				for (int more = k; more < TREE_RANKS; more++)
					to->hits[bucket_of(i)][more]++;
				break;
			}
}

static void ask_exit(struct match_bench* b, int n) {
	for (int i = 0; i < n; i++) {
		b->out[i].top = TREE_RANKS;
		b->want[i] = WANT_TOKEN | WANT_TOP;
	}
}

static bool has_trained(const struct match_bench* b, int exit) {
	const struct heads* heads = &b->part.bench.engine->heads;
	return heads->bytes > 0 && heads->weight[b->block[exit]];
}

/* The rows' states at this exit, mapped by its trained head. */
static bool run_heads(struct match_bench* b, int exit, int n, struct error* error) {
	struct backend* backend = b->part.bench.engine->backend;
	struct exit_heads heads = {
	    .heads = &b->part.bench.engine->heads, .scratch = b->scratch, .in = b->head_in};
	struct pass pass;
	ask_exit(b, n);
	exit_heads_fill(&heads, b->block[exit], b->state, n, b->want, b->out, &pass);
	const bool good = backend->run(backend, &pass, error);
	backend->discard(b->scratch);
	return good;
}

/* token (n + 1): the text after `base` committed tokens; n rows predict its tokens from the second on. */
static bool run_exits(struct match_bench* b, const int32_t* token, int n, struct error* error) {
	struct backend* backend = b->part.bench.engine->backend;
	const struct segment segment = {.cache = b->cache, .base = b->cache->committed, .n = n};
	for (int e = 0, from = 0; e < b->exits; from = 2 * b->block[e++]) {
		ask_exit(b, n);
		struct pass pass = pass_over(&segment, token, NULL, 2 * b->block[e], b->want, b->out);
		pass.row = state_text_rows;
		pass.first = from;
		pass.head = true;
		pass.tap = 2 * b->block[e] - 1;
		pass.tap_out = b->state;
		if (!backend->run(backend, &pass, error))
			return false;
		count_matches(b, &b->own[e], token, n);
		if (has_trained(b, e)) {
			if (!run_heads(b, e, n, error))
				return false;
			count_matches(b, &b->trained[e], token, n);
		}
	}
	backend->discard(b->cache);
	for (int i = 0; i < n; i++)
		b->rows[bucket_of(i)]++;
	return true;
}

/* The rows that predict the answer's tokens, with the whole prompt but its last token committed. */
static bool measure_text(struct match_bench* b, const struct state_text* t, struct error* error) {
	int32_t next;
	b->cache->backend->truncate(b->cache, 0);
	if (!state_text_prefill(b->cache, t->id, t->n_prompt, &next, error))
		return false;
	b->cache->backend->truncate(b->cache, t->n_prompt - 1);
	return run_exits(b, t->id + t->n_prompt - 1, t->n - t->n_prompt, error);
}

/* ---- report --------------------------------------------------------------------------------- */

/* Sums over all positions if `position` is negative. */
static double rate_of(const struct match_bench* b, const struct rates* r, int position, int k) {
	double hits = 0, rows = 0;
	for (int i = 0; i < POSITIONS; i++)
		if (position < 0 || i == position) {
			hits += (double)r->hits[i][k];
			rows += (double)b->rows[i];
		}
	return quotient(hits, rows);
}

static void report_rates(cJSON* list, const struct match_bench* b, const struct rates* r, int exit,
                         bool trained) {
	cJSON* const row = bench_json_row(list);
	double all[TREE_RANKS], by[POSITIONS];
	for (int k = 0; k < TREE_RANKS; k++)
		all[k] = rate_of(b, r, -1, k);
	for (int i = 0; i < POSITIONS; i++)
		by[i] = rate_of(b, r, i, 0);
	cJSON_AddNumberToObject(row, "block", b->block[exit]);
	cJSON_AddBoolToObject(row, "trained", trained);
	bench_json_numbers(row, "p_correct", all, TREE_RANKS);
	bench_json_numbers(row, "by_position", by, POSITIONS);
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool open_all(struct match_bench* b, struct error* error) {
	const struct runtime* const bench = &b->part.bench;
	const struct model_shape* shape = &bench->model->weights.shape;
	if (shape->n_blocks < 2)
		return error_set(error, "%s has one block, and an exit needs at least 2", bench->model->name);
	b->cache = text_cache_open(bench, bench_context(bench), error);
	b->scratch = b->cache ? text_cache_open(bench, 1, error) : NULL;
	if (!b->scratch)
		return false;
	b->state = malloc(2 * (size_t)ALL_ROWS * (size_t)shape->dim * sizeof *b->state);
	b->text = calloc(MOST_PROMPTS, sizeof *b->text);
	if (!b->state || !b->text)
		return error_set(error, "out of memory for hidden states");
	b->head_in = b->state + (size_t)ALL_ROWS * (size_t)shape->dim;
	for (int e = 1; e < shape->n_blocks; e++)
		b->block[b->exits++] = e;
	return true;
}

static bool measure_all(struct match_bench* b, cJSON* out, struct error* error) {
	const struct runtime* const bench = &b->part.bench;
	if (!open_all(b, error) || !bench_prompts(bench, &b->prompts, b->input, ALL_ROWS, error))
		return false;
	const int n = least(b->prompts.n, b->most_prompts);
	if (!state_texts_answer(bench, b->prompts.prompt, n, b->text, error))
		return false;
	for (int i = 0; i < n && !interrupted(); i++) {
		progress_show((double)i / n, "prompt %d of %d", i + 1, n);
		if (!measure_text(b, &b->text[i], error))
			return false;
	}
	cJSON* const list = cJSON_AddArrayToObject(out, "rates");
	for (int e = 0; e < b->exits; e++) {
		report_rates(list, b, &b->own[e], e, false);
		if (has_trained(b, e))
			report_rates(list, b, &b->trained[e], e, true);
	}
	return true;
}

static bool measure_match_rate(struct bench_part* part, cJSON* out, struct error* error) {
	struct match_bench* b = (struct match_bench*)part;
	const bool good = measure_all(b, out, error);
	if (b->cache)
		b->cache->backend->cache_close(b->cache);
	if (b->scratch)
		b->scratch->backend->cache_close(b->scratch);
	state_texts_free(b->text, b->prompts.n);
	free(b->state);
	prompt_list_free(&b->prompts);
	return good;
}

int bench_match_rate_main(int argc, char** argv) {
	struct match_bench b = {.part = {.measure = measure_match_rate}, .most_prompts = 32};
	const struct command_option option[] = {
	    BENCH_OPTIONS(b.part),
	    TEXT("input", 'i', "FILE", "prompts, as `swiftlet stream` takes them (six of the program's own)",
	         &b.input),
	    COUNT("prompts", 'n', "N", "stop after N prompts", &b.most_prompts, 1, MOST_PROMPTS),
	};
	struct command_line line = {
	    .name = "bench match-rate",
	    .usage = "MODEL [-i FILE] [--heads FILE] [options]",
	    .about =
	        "Measures how often the whole model's token is among the k likeliest at an early exit, by "
	        "block,\n"
	        "for k from 1 to 10 (p_correct), and for k = 1 at tokens 1-16, -32, -64, -128 (by_position):\n"
	        "with the model's head and with trained ones (--heads).",
	    .examples = "  swiftlet bench match-rate -i streams/demo.jsonl\n"
	                "  swiftlet bench match-rate -m model --heads heads.safetensors --json",
	    OPTIONS(option),
	};
	return bench_part_main(&b.part, &line, argc, argv);
}
