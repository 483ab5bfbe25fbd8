/* Bridges tried on a model: spans, fits, one-step alpha. */
#include "tools/lab/bridge_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dtype_blocks.h"
#include "optimizer/influence.h"

static int dim_of(const struct bridge_trial* r) { return r->bench->model->weights.shape.dim; }
static int blocks_of(const struct bridge_trial* r) { return r->bench->model->weights.shape.n_blocks; }

/* ---- spans ---------------------------------------------------------------------------------- */

static bool read_spans(struct bridge_trial* r, const char* text, struct error* error) {
	while (*text) {
		int first, last, used = 0;
		if (r->n_spans == BRIDGE_SPANS || sscanf(text, "%d-%d%n", &first, &last, &used) != 2 || first < 1 ||
		    last < first || last >= blocks_of(r) - 1)
			return error_set(error, "--spans: expected up to %d spans of blocks within 1-%d at \"%.20s\"",
			                 BRIDGE_SPANS, blocks_of(r) - 2, text);
		r->span[r->n_spans++] = (struct bridge_span){.first = first, .last = last};
		text += used;
		text += *text == ',';
	}
	return true;
}

static int point_of(struct state_points* points, int at) {
	int i = 0;
	while (i < points->n && points->at[i] != at)
		i++;
	if (i == points->n)
		points->at[points->n++] = at;
	return i;
}

static int ascending(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }

static bool open_spans(struct bridge_trial* r, struct error* error) {
	const int dim = dim_of(r);
	for (int i = 0; i < r->n_spans; i++) {
		point_of(&r->points, 2 * r->span[i].first);
		point_of(&r->points, 2 * r->span[i].last + 2);
	}
	point_of(&r->points, 2 * blocks_of(r));
	qsort(r->points.at, (size_t)r->points.n, sizeof *r->points.at, ascending);
	for (int i = 0; i < r->n_spans; i++) {
		struct bridge_span* s = &r->span[i];
		s->bridge = (struct bridge){.first = 2 * s->first, .last = 2 * s->last + 2};
		for (int l = s->bridge.first; l < s->bridge.last; l++)
			mask_set(&s->mask, l, true);
		s->before = point_of(&r->points, s->bridge.first);
		s->after = point_of(&r->points, s->bridge.last);
		if (!gram_open(&s->gram, 1 + 2 * dim, dim))
			return error_set(error, "out of memory for sums of %zu MiB", gram_bytes(1 + 2 * dim, dim) >> 20);
	}
	r->previous = calloc((size_t)dim, sizeof(float));
	r->difference = calloc((size_t)dim, sizeof(float));
	r->weight = calloc(2 * (size_t)dim * (size_t)dim, sizeof(float));
	r->bias = calloc((size_t)dim, sizeof(float));
	return (r->previous && r->difference && r->weight && r->bias) ||
	       error_set(error, "out of memory for bridges");
}

/* ---- learning ------------------------------------------------------------------------------- */

static void take_rows(void* user, int first, int n, float* const* state) {
	struct bridge_trial* r = user;
	const int dim = dim_of(r);
	for (int row = 0; row < n; row++) {
		const size_t at = (size_t)row * (size_t)dim;
		for (int i = 0; i < r->n_spans && first + row >= INFLUENCE_FIRST; i++) {
			struct bridge_span* s = &r->span[i];
			double squares = 0;
			for (int j = 0; j < dim; j++) {
				const float after = state[s->after][at + (size_t)j];
				r->difference[j] = after - state[s->before][at + (size_t)j];
				squares += (double)after * (double)after;
			}
			if (squares > 0)
				gram_add(&s->gram, state[s->before] + at, dim, r->previous, dim, r->difference,
				         dim / squares);
		}
		r->rows += first + row >= INFLUENCE_FIRST;
		memcpy(r->previous, state[r->points.n - 1] + at, (size_t)dim * sizeof(float));
	}
}

/* ---- judging -------------------------------------------------------------------------------- */

/* The caches of the texts that judge, with all of them but the last token. */
static bool open_judged(struct bridge_trial* r, struct error* error) {
	for (int i = 0; i < r->judge.n; i++) {
		struct state_text* t = &r->judged[i];
		bench_progress((double)i / r->judge.n, "unseen texts");
		if (!state_text_fill(r->bench, t, error))
			return false;
		r->positions += t->n - 1 - t->n_prompt;
	}
	return true;
}

/* The first choices after tokens [0, n) that follow the committed ones: of draft steps, each a child of the
 * token before it, which the full model has run. Commits the tokens. */
static bool draft(struct bridge_trial* r, struct cache* cache, const int32_t* token, int n,
                  const struct bridge_span* s, const struct bridge* bridge, struct result* out,
                  struct error* error) {
	struct backend* backend = cache->backend;
	const struct segment segment = {.cache = cache, .base = cache->committed, .n = n};
	int32_t before[SLICE_ROWS];
	uint8_t want[SLICE_ROWS];
	for (int i = 0; i < n; i++) {
		before[i] = i - 1;
		want[i] = WANT_TOKEN;
	}
	const struct pass full = pass_over(&segment, token, NULL, 2 * blocks_of(r), NULL, NULL);
	struct pass pass = pass_over(&segment, token, before, 2 * blocks_of(r), want, out);
	pass.skip = &s->mask;
	pass.bridge = bridge;
	pass.head = true;
	if (!backend->run(backend, &full, error) || !backend->run(backend, &pass, error))
		return false;
	backend->commit(cache, state_text_rows, n);
	return true;
}

/* bridge: NULL for a bare span. */
static bool judge(struct bridge_trial* r, const struct bridge_span* s, const struct bridge* bridge,
                  double* share, struct error* error) {
	struct result out[SLICE_ROWS];
	int32_t ignored;
	long right = 0;
	for (int i = 0; i < r->judge.n; i++) {
		const struct state_text* t = &r->judged[i];
		t->cache->backend->truncate(t->cache, t->n_prompt - 1);
		if (!state_text_prefill(t->cache, t->id, t->n_prompt, &ignored, error))
			return false;
		for (int first = t->n_prompt; first < t->n - 1; first += SLICE_ROWS) {
			const int n = least(t->n - 1 - first, SLICE_ROWS);
			if (!draft(r, t->cache, t->id + first, n, s, bridge, out, error))
				return false;
			for (int j = 0; j < n; j++)
				right += out[j].token == t->id[first + j + 1];
		}
	}
	*share = (double)right / (double)r->positions;
	return true;
}

/* What was fitted last, in halves. */
static bool keep_bridge(const struct bridge_trial* r, struct bridge_span* s, struct error* error) {
	static const float half_most = 65504;
	const size_t dim = (size_t)dim_of(r), n = 2 * dim * dim;
	free(s->memory);
	uint16_t* const half = s->memory =
	    aligned_alloc(64, (n * sizeof *half + dim * sizeof(float) + 63) / 64 * 64);
	if (!half)
		return error_set(error, "out of memory for a bridge");
	float* const bias = (float*)(void*)(half + n);
	for (size_t i = 0; i < n; i++) {
		if (!(fabsf(r->weight[i]) <= half_most))
			return error_set(error, "a bridge's weight is %g, beyond halves", (double)r->weight[i]);
		half[i] = half_from_float(r->weight[i]);
	}
	memcpy(bias, r->bias, dim * sizeof *bias);
	s->bridge.weight =
	    (struct tensor){.type = DTYPE_F16, .rows = (int64_t)dim, .cols = 2 * (int64_t)dim, .data = half};
	s->bridge.bias = bias;
	return true;
}

/* What all rows so far have taught. */
static bool judge_all(struct bridge_trial* r, struct error* error) {
	const int k = r->n_sizes;
	for (int i = 0; i < r->n_spans; i++) {
		struct bridge_span* s = &r->span[i];
		bench_progress((double)i / r->n_spans, "bridges");
		if (!ridge_solve(&s->gram, r->weight, r->bias, &s->learned[k].fit))
			return error_set(error, "%ld tokens are too few to learn from, or memory is",
			                 gram_rows(&s->gram));
		if (!keep_bridge(r, s, error) || (k == 0 && !judge(r, s, NULL, &s->bare, error)) ||
		    !judge(r, s, &s->bridge, &s->learned[k].right, error))
			return false;
	}
	r->size[r->n_sizes++] = r->rows;
	return true;
}

static bool learn(struct bridge_trial* r, struct error* error) {
	long next = 2000;
	for (int i = 0; i < r->learn.n && r->rows < r->tokens; i++) {
		bench_progress((double)i / r->learn.n, "states to learn from");
		if (!state_text_walk(r->bench, &r->learned[i], false, &r->points, take_rows, r, error))
			return false;
		if (r->rows < next || r->n_sizes == BRIDGE_SIZES - 1 || r->judge.n == 0)
			continue;
		if (!judge_all(r, error))
			return false;
		next *= 4;
	}
	return (r->n_sizes > 0 && r->size[r->n_sizes - 1] == r->rows) || judge_all(r, error);
}

/* ---- running -------------------------------------------------------------------------------- */

/* Prompts are answered as far as the tokens to learn from ask for. */
static bool answer_learned(struct bridge_trial* r, struct error* error) {
	enum { STRIDE = 16 };
	long tokens = 0;
	for (int done = 0; done < r->learn.n && tokens < r->tokens; done += STRIDE) {
		const int n = least(r->learn.n - done, STRIDE);
		if (!state_texts_answer(r->bench, r->learn.prompt + done, n, r->learned + done, error))
			return false;
		for (int i = done; i < done + n; i++)
			tokens += r->learned[i].n - 1 - INFLUENCE_FIRST;
	}
	return true;
}

bool bridge_trial_run(struct bridge_trial* r, const char* spans, struct error* error) {
	if (!r->bench->engine->backend->has_bridges)
		return error_set(error, "bridges run in one process: leave out mpirun");
	r->judged = calloc((size_t)r->judge.n + 1, sizeof *r->judged);
	r->learned = calloc((size_t)r->learn.n + 1, sizeof *r->learned);
	if (!r->judged || !r->learned)
		return error_set(error, "out of memory for texts");
	if (r->learn.n == 0)
		return error_set(error, "no prompts to learn from");
	return state_texts_answer(r->bench, r->judge.prompt, r->judge.n, r->judged, error) &&
	       answer_learned(r, error) && read_spans(r, spans, error) && open_spans(r, error) &&
	       open_judged(r, error) && learn(r, error);
}

void bridge_trial_close(struct bridge_trial* r) {
	for (int i = 0; i < r->n_spans; i++) {
		gram_close(&r->span[i].gram);
		free(r->span[i].memory);
	}
	if (r->judged)
		state_texts_free(r->judged, r->judge.n);
	if (r->learned)
		state_texts_free(r->learned, r->learn.n);
	free(r->judged);
	free(r->learned);
	free(r->previous);
	free(r->difference);
	free(r->weight);
	free(r->bias);
	prompt_list_free(&r->judge);
	prompt_list_free(&r->learn);
}
