/* Answers, windows, scores and span influence; search_lab.h says what for. */
#include "tools/lab/search_lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers and what is cut from them ------------------------------------------------------ */

/* The k-th window of every text, then the next one's: what comes first is of many texts. */
static void cut(struct lab_half* half) {
	bool more = true;
	for (int at = 0; more; at += LAB_WINDOW) {
		more = false;
		for (int i = 0; i < half->n; i++) {
			const struct state_text* t = &half->text[i];
			const int base = t->n_prompt - 1 + at, left = t->n - 1 - base;
			if (left < LAB_WINDOW / 8 || half->windows == LAB_MOST_WINDOWS)
				continue;
			half->window[half->windows++] =
			    (struct lab_window){i, base, left < LAB_WINDOW ? left : LAB_WINDOW};
			more = true;
		}
	}
}

struct walk {
	struct lab* lab;
	struct lab_half* half;
	int text;
};

/* Influence of the answer's rows. */
static void take_states(void* user, int first, int n, float* const* state) {
	struct walk* w = user;
	struct lab* lab = w->lab;
	const struct state_text* t = &w->half->text[w->text];
	const size_t dim = (size_t)lab->backend->weights->shape.dim;
	const int skip = t->n_prompt > first ? t->n_prompt - first : 0;
	float* point[2 * MAX_BLOCKS + 1] = {NULL};
	if (skip >= n || w->half != &lab->half[LAB_LEARN])
		return;
	for (int i = 0; i < 2 * lab->blocks; i++)
		point[i + 1] = state[i] + (size_t)skip * dim;
	spans_add(&lab->spans, point, n - skip, (int)dim);
}

/* The caches of a half, filled, and what its answers' states tell. */
static bool walk(struct lab* lab, int half, struct error* error) {
	struct state_points points = {.n = 0};
	struct lab_half* h = &lab->half[half];
	for (int s = 1; s <= 2 * lab->blocks; s++)
		if (half == LAB_LEARN || s == 2 * lab->blocks)
			points.at[points.n++] = s;
	for (int i = 0; i < h->n; i++) {
		struct walk w = {lab, h, i};
		bench_progress((double)i / h->n, "states");
		if (!state_text_walk(&lab->maker, &h->text[i], true, &points, take_states, &w, error))
			return false;
	}
	cut(h);
	return h->windows > 0 || error_set(error, "the answers are too short to score masks on");
}

static void progress(double share, const char* what) { bench_progress(share, "%s", what); }

static bool answer(struct lab* lab, const struct prompt* prompt, int n, struct error* error) {
	struct prompt* split = calloc((size_t)n, sizeof *split);
	int most[2] = {0, 0};
	if (!split)
		return error_set(error, "out of memory for prompts");
	bool good = true;
	for (int half = 0; half < 2 && good; half++) {
		struct lab_half* h = &lab->half[half];
		for (int i = half; i < n; i += 2)
			split[most[half]++] = prompt[i];
		h->text = calloc((size_t)n, sizeof *h->text);
		h->n = most[half];
		good = (h->text != NULL || error_set(error, "out of memory for texts")) &&
		       state_texts_answer(&lab->maker, split, h->n, h->text, error);
	}
	free(split);
	return good;
}

bool lab_open(struct lab* lab, const struct bench* bench, const struct swiftlet_options* options,
              const struct prompt* prompt, int n, struct error* error) {
	struct backend* backend = bench->engine->backend;
	*lab = (struct lab){.maker = {bench->engine, options_context(options, bench->model), progress},
	                    .backend = backend,
	                    .blocks = backend->weights->shape.n_blocks};
	const struct cost_model bytes = cost_by_bytes(&bench->engine->cost);
	cost_sub_layers(&bytes, false, &lab->attention, &lab->mlp, &lab->fixed);
	if (n < 2)
		return error_set(error, "fewer than two prompts");
	return (spans_open(&lab->spans, lab->blocks) || error_set(error, "out of memory for influence")) &&
	       answer(lab, prompt, n, error) && walk(lab, LAB_LEARN, error) && walk(lab, LAB_JUDGE, error);
}

void lab_close(struct lab* lab) {
	for (int half = 0; half < 2; half++) {
		if (lab->half[half].text)
			state_texts_free(lab->half[half].text, lab->half[half].n);
		free(lab->half[half].text);
	}
	spans_close(&lab->spans);
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Each row a segment of its own, that sees the tokens before it. */
static bool score_window(struct lab* lab, struct lab_half* half, const struct mask* mask,
                         const struct lab_window* w, struct lab_score* score, struct error* error) {
	const struct state_text* t = &half->text[w->text];
	struct segment segment[LAB_WINDOW];
	int32_t parent[LAB_WINDOW];
	uint8_t want[LAB_WINDOW];
	for (int i = 0; i < w->size; i++) {
		segment[i] = (struct segment){.cache = t->cache, .base = w->base + i, .n = 1};
		parent[i] = -1;
		want[i] = WANT_TOKEN | WANT_TOP;
		lab->out[i].top = MAX_TOP;
	}
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = w->size,
	                          .n_segments = w->size,
	                          .segment = segment,
	                          .token = t->id + w->base,
	                          .parent = parent,
	                          .skip = mask,
	                          .last = 2 * lab->blocks,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = lab->out};
	if (!lab->backend->run(lab->backend, &pass, error))
		return false;
	lab->backend->discard(t->cache);
	for (int i = 0; i < w->size; i++) {
		const int32_t truth = t->id[w->base + i + 1];
		const double p = result_probability(&lab->out[i], truth);
		score->matches += lab->out[i].token == truth;
		score->probability += p;
		score->log_probability += search_log_probability(p);
	}
	score->rows += w->size;
	return true;
}

bool lab_score(struct lab* lab, int half, const struct mask* mask, int first, int n, struct lab_score* score,
               struct error* error) {
	struct lab_half* h = &lab->half[half];
	for (int i = first; i < first + n; i++)
		if (!score_window(lab, h, mask, &h->window[i % h->windows], score, error))
			return false;
	return true;
}

double lab_alpha(struct lab* lab, int half, const struct mask* mask, struct error* error) {
	struct lab_score score = {0};
	if (!lab_score(lab, half, mask, 0, lab->half[half].windows, &score, error))
		return -1;
	return (double)score.matches / score.rows;
}

double lab_saved(const struct lab* lab, const struct mask* mask) {
	double saved = 0;
	for (int s = 0; s < 2 * lab->blocks; s++)
		saved += mask_has(mask, s) ? s & 1 ? lab->mlp : lab->attention : 0;
	return saved;
}
