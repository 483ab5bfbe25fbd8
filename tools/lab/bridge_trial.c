/* Bridges tried on a model: spans, fits, one-step alpha. */
#include "tools/lab/bridge_trial.h"

#include <gsl/gsl_blas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dtype_blocks.h"
#include "optimizer/influence.h"
#include "tools/lab/bench.h"

enum { BATCH = 64 };

static const struct model* model_of(const struct bridge_trial* r) { return r->maker.engine->model; }
static int dim_of(const struct bridge_trial* r) { return model_of(r)->weights.shape.dim; }
static int blocks_of(const struct bridge_trial* r) { return model_of(r)->weights.shape.n_blocks; }

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
		s->before = point_of(&r->points, s->bridge.first);
		s->after = point_of(&r->points, s->bridge.last);
		if (!gram_open(&s->gram, 1 + 2 * dim, dim))
			return error_set(error, "out of memory for sums of %zu MiB", gram_bytes(1 + 2 * dim, dim) >> 20);
	}
	r->previous = calloc((size_t)dim, sizeof(float));
	r->difference = calloc((size_t)dim, sizeof(float));
	r->weight = calloc(2 * (size_t)dim * (size_t)dim, sizeof(float));
	r->bias = calloc((size_t)dim, sizeof(float));
	r->bridged = calloc(BATCH * (size_t)dim, sizeof(float));
	r->state = calloc((size_t)r->judge.n, sizeof *r->state);
	return (r->previous && r->difference && r->weight && r->bias && r->bridged && r->state) ||
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

struct keeping {
	struct bridge_trial* run;
	float* to; /* (points, rows, dim) */
	int rows;
};

static void keep_states(void* user, int first, int n, float* const* state) {
	const struct keeping* k = user;
	const size_t dim = (size_t)dim_of(k->run);
	for (int i = 0; i < k->run->points.n; i++)
		memcpy(k->to + ((size_t)i * (size_t)k->rows + (size_t)first) * dim, state[i],
		       (size_t)n * dim * sizeof(float));
}

static bool keep_judged(struct bridge_trial* r, struct error* error) {
	for (int i = 0; i < r->judge.n; i++) {
		struct state_text* t = &r->judged[i];
		bench_progress((double)i / r->judge.n, "states of unseen texts");
		r->state[i] = malloc((size_t)r->points.n * (size_t)t->n * (size_t)dim_of(r) * sizeof(float));
		struct keeping keeping = {r, r->state[i], t->n};
		if (!r->state[i])
			return error_set(error, "out of memory for states");
		if (!state_text_walk(&r->maker, t, true, &r->points, keep_states, &keeping, error))
			return false;
		r->positions += t->n - 1 - t->n_prompt;
	}
	return true;
}

/* The first choices after rows [0, n) with these states, which go on behind the span; row i follows base + i
 * committed tokens. */
static bool choices(struct bridge_trial* r, struct cache* cache, int base, int n, int from,
                    const float* state, struct result* out, struct error* error) {
	struct backend* backend = r->maker.engine->backend;
	struct segment segment[BATCH];
	uint8_t want[BATCH];
	static const int32_t none[1] = {-1};
	for (int i = 0; i < n; i++) {
		segment[i] = (struct segment){.cache = cache, .base = base + i, .n = 1};
		want[i] = WANT_TOKEN;
		struct pass place = pass_over(&segment[i], NULL, none, from, NULL, NULL);
		place.state = state + (size_t)i * (size_t)dim_of(r);
		place.first = from;
		if (!backend->run(backend, &place, error))
			return false;
	}
	struct pass pass = pass_over(segment, NULL, NULL, 2 * blocks_of(r), want, out);
	pass.n = pass.n_segments = n;
	pass.row = state_text_rows;
	pass.first = from;
	pass.head = true;
	const bool good = backend->run(backend, &pass, error);
	backend->discard(cache);
	return good;
}

/* bridged = before + W·[before; final of the row before] + b, n rows. */
static void apply(struct bridge_trial* r, const float* before, const float* final, int n) {
	const size_t dim = (size_t)dim_of(r);
	gsl_matrix_float_view to = gsl_matrix_float_view_array(r->bridged, (size_t)n, dim);
	for (int part = 0; part < 2; part++) {
		gsl_matrix_float_const_view in =
		    gsl_matrix_float_const_view_array(part ? final : before, (size_t)n, dim);
		gsl_matrix_float_view w =
		    gsl_matrix_float_view_array_with_tda(r->weight + (size_t)part * dim, dim, dim, 2 * dim);
		gsl_blas_sgemm(CblasNoTrans, CblasTrans, 1, &in.matrix, &w.matrix, 1, &to.matrix);
	}
	for (size_t i = 0; i < (size_t)n * dim; i++)
		r->bridged[i] += r->bias[i % dim];
}

static bool judge(struct bridge_trial* r, const struct bridge_span* s, bool bridged, double* share,
                  struct error* error) {
	const size_t dim = (size_t)dim_of(r);
	struct result out[BATCH];
	long right = 0;
	for (int i = 0; i < r->judge.n; i++) {
		const struct state_text* t = &r->judged[i];
		const float* before = r->state[i] + (size_t)s->before * (size_t)t->n * dim;
		const float* final = r->state[i] + (size_t)(r->points.n - 1) * (size_t)t->n * dim;
		for (int first = t->n_prompt; first < t->n - 1; first += BATCH) {
			const int n = t->n - 1 - first < BATCH ? t->n - 1 - first : BATCH;
			memcpy(r->bridged, before + (size_t)first * dim, (size_t)n * dim * sizeof(float));
			if (bridged)
				apply(r, before + (size_t)first * dim, final + (size_t)(first - 1) * dim, n);
			if (!choices(r, t->cache, first, n, 2 * s->last + 2, r->bridged, out, error))
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
		if (!keep_bridge(r, s, error) || (k == 0 && !judge(r, s, false, &s->bare, error)) ||
		    !judge(r, s, true, &s->learned[k].right, error))
			return false;
	}
	r->size[r->n_sizes++] = r->rows;
	return true;
}

static bool learn(struct bridge_trial* r, struct error* error) {
	long next = 2000;
	for (int i = 0; i < r->learn.n && r->rows < r->tokens; i++) {
		bench_progress((double)i / r->learn.n, "states to learn from");
		if (!state_text_walk(&r->maker, &r->learned[i], false, &r->points, take_rows, r, error))
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
		const int n = r->learn.n - done < STRIDE ? r->learn.n - done : STRIDE;
		if (!state_texts_answer(&r->maker, r->learn.prompt + done, n, r->learned + done, error))
			return false;
		for (int i = done; i < done + n; i++)
			tokens += r->learned[i].n - 1 - INFLUENCE_FIRST;
	}
	return true;
}

bool bridge_trial_split(struct bridge_trial* r, struct error* error) {
	int kept = 0;
	for (int i = 0; i < r->judge.n; i++)
		if (i % 2 == 0)
			r->learn.prompt[r->learn.n++] = r->judge.prompt[i];
		else
			r->judge.prompt[kept++] = r->judge.prompt[i];
	r->judge.n = kept;
	return kept > 0 || error_set(error, "one prompt is too few: some are learned from, the others judge");
}

bool bridge_trial_run(struct bridge_trial* r, const char* spans, struct error* error) {
	if (!r->maker.engine->backend->has_bridges)
		return error_set(error, "bridges run in one process: leave out mpirun");
	prompt_list_fit(&r->judge, r->maker.context);
	prompt_list_fit(&r->learn, r->maker.context);
	r->judged = calloc((size_t)r->judge.n + 1, sizeof *r->judged);
	r->learned = calloc((size_t)r->learn.n + 1, sizeof *r->learned);
	if (!r->judged || !r->learned)
		return error_set(error, "out of memory for texts");
	if (r->learn.n == 0)
		return error_set(error, "no prompts to learn from");
	return state_texts_answer(&r->maker, r->judge.prompt, r->judge.n, r->judged, error) &&
	       answer_learned(r, error) && read_spans(r, spans, error) && open_spans(r, error) &&
	       keep_judged(r, error) && learn(r, error);
}

void bridge_trial_close(struct bridge_trial* r) {
	for (int i = 0; i < r->n_spans; i++) {
		gram_close(&r->span[i].gram);
		free(r->span[i].memory);
	}
	for (int i = 0; r->state && i < r->judge.n; i++)
		free(r->state[i]);
	if (r->judged)
		state_texts_free(r->judged, r->judge.n);
	if (r->learned)
		state_texts_free(r->learned, r->learn.n);
	free(r->judged);
	free(r->learned);
	free(r->state);
	free(r->previous);
	free(r->difference);
	free(r->weight);
	free(r->bias);
	free(r->bridged);
	prompt_list_free(&r->judge);
	prompt_list_free(&r->learn);
}
