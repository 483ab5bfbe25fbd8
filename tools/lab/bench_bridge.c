/* `swiftlet bench bridge`: what a bridge makes of a span that is left out.
 *
 * The model answers prompts greedily; from the states of full passes over some of these texts bridges are
 * fitted (core/bridge), and on the others one-step alpha is counted: how often the first choice of a draft
 * step after each position is the full model's, when the span is left out in the step's own row, without a
 * bridge, with one that reads the state before the span alone, and with one that reads the previous token's
 * final state too. Prices are this machine's, measured, and a GPU's where v grows by 0.006 a row. */
#include <gsl/gsl_blas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bridge/bridge_file.h"
#include "core/bridge/solve.h"
#include "optimizer/influence.h"
#include "tools/lab/bench.h"
#include "tools/lab/prices.h"
#include "tools/lab/state_texts.h"
#include "tools/program/runtime.h"

enum { MOST_SPANS = 8, MOST_AMOUNTS = 8, BATCH = 64, KINDS = 3, CHAIN = 16 };
static const char* const kind_name[KINDS] = {"without", "bridge", "with final"};

struct span {
	int first, last;   /* blocks, both left out */
	int before, after; /* which of the states */
	struct gram gram;
	double cost[2];            /* of a draft step, in plain ones, without and with a bridge */
	struct kept_bridge bridge; /* of the most tokens */
	double right[MOST_AMOUNTS][KINDS];
	struct ridge_fit fit[MOST_AMOUNTS][KINDS];
};

struct bridge_run {
	struct bench bench;
	const char* save;
	struct prompt_list learn, judge;
	struct state_text *learned, *judged; /* (learn.n), (judge.n) */
	float** state;                       /* (judge.n) each (points, text's rows, dim) */
	struct span span[MOST_SPANS];
	struct state_points points;
	int n_spans, n_amounts;
	int64_t amount[MOST_AMOUNTS];
	long rows, positions;         /* learned from; judged */
	int at;                       /* the amount that comes next */
	float *previous, *difference; /* (dim) the row before's final state; of the row at hand */
	double row_seconds[ROW_COUNTS];
	float *weight, *bias, *bridged; /* (dim, 2·dim), (dim), (BATCH, dim) */
};

static int dim_of(const struct bridge_run* r) { return r->bench.model->weights.shape.dim; }
static int blocks_of(const struct bridge_run* r) { return r->bench.model->weights.shape.n_blocks; }

/* ---- spans ---------------------------------------------------------------------------------- */

static bool read_spans(struct bridge_run* r, const char* text, struct error* error) {
	while (*text) {
		int first, last, used = 0;
		if (r->n_spans == MOST_SPANS || sscanf(text, "%d-%d%n", &first, &last, &used) != 2 || first < 1 ||
		    last < first || last >= blocks_of(r) - 1)
			return error_set(error, "--spans: expected up to %d spans of blocks within 1-%d at \"%.20s\"",
			                 MOST_SPANS, blocks_of(r) - 2, text);
		r->span[r->n_spans++] = (struct span){.first = first, .last = last};
		text += used;
		text += *text == ',';
	}
	return true;
}

/* 1 - cos of the states at all blocks' beginnings, by span, summed over rows. */
struct influence_sums {
	struct bridge_run* run;
	double* sum; /* (L + 1, L + 1) by first state and last */
};

static double cosine(const float* a, const float* b, int n) {
	double aa = 0, ab = 0, bb = 0;
	for (int i = 0; i < n; i++) {
		aa += (double)a[i] * (double)a[i];
		ab += (double)a[i] * (double)b[i];
		bb += (double)b[i] * (double)b[i];
	}
	return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

static void take_influence(void* user, int first, int n, float* const* state) {
	const struct influence_sums* s = user;
	const int dim = dim_of(s->run), blocks = blocks_of(s->run);
	for (int row = first < INFLUENCE_FIRST ? INFLUENCE_FIRST - first : 0; row < n; row++)
		for (int i = 1; i < blocks; i++) /* state i - 1 is the one before block i */
			for (int j = i + 1; j < blocks; j++)
				s->sum[i * (blocks + 1) + j] += 1 - cosine(state[i - 1] + (size_t)row * (size_t)dim,
				                                           state[j - 1] + (size_t)row * (size_t)dim, dim);
}

/* Of each of some lengths the span with the least influence on the first text learned from. */
static bool choose_spans(struct bridge_run* r, struct error* error) {
	static const double share[] = {0.14, 0.27, 0.4, 0.5};
	const int blocks = blocks_of(r);
	struct state_points all = {.n = blocks};
	struct influence_sums sums = {r, calloc((size_t)(blocks + 1) * (size_t)(blocks + 1), sizeof(double))};
	for (int i = 0; i < blocks; i++)
		all.at[i] = 2 * (i + 1);
	const bool good =
	    sums.sum && state_text_walk(&r->bench, &r->learned[0], false, &all, take_influence, &sums, error);
	for (size_t k = 0; good && k < sizeof share / sizeof *share; k++) {
		const int length = (int)lround(share[k] * blocks);
		struct span best = {.first = 1, .last = length};
		for (int first = 1; first + length < blocks; first++)
			if (sums.sum[first * (blocks + 1) + first + length] <
			    sums.sum[best.first * (blocks + 1) + best.last + 1])
				best = (struct span){.first = first, .last = first + length - 1};
		if (length > 0 && length < blocks - 1)
			r->span[r->n_spans++] = best;
	}
	free(sums.sum);
	return good;
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

static bool open_spans(struct bridge_run* r, struct error* error) {
	const int dim = dim_of(r);
	for (int i = 0; i < r->n_spans; i++) {
		point_of(&r->points, 2 * r->span[i].first);
		point_of(&r->points, 2 * r->span[i].last + 2);
	}
	point_of(&r->points, 2 * blocks_of(r));
	qsort(r->points.at, (size_t)r->points.n, sizeof *r->points.at, ascending);
	for (int i = 0; i < r->n_spans; i++) {
		r->span[i].before = point_of(&r->points, 2 * r->span[i].first);
		r->span[i].after = point_of(&r->points, 2 * r->span[i].last + 2);
		if (!gram_open(&r->span[i].gram, 1 + 2 * dim, dim))
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
	struct bridge_run* r = user;
	const int dim = dim_of(r);
	for (int row = 0; row < n; row++) {
		const size_t at = (size_t)row * (size_t)dim;
		for (int i = 0; i < r->n_spans && first + row >= INFLUENCE_FIRST; i++) {
			struct span* s = &r->span[i];
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
	struct bridge_run* run;
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

static bool keep_judged(struct bridge_run* r, struct error* error) {
	for (int i = 0; i < r->judge.n; i++) {
		struct state_text* t = &r->judged[i];
		bench_progress((double)i / r->judge.n, "states of unseen texts");
		r->state[i] = malloc((size_t)r->points.n * (size_t)t->n * (size_t)dim_of(r) * sizeof(float));
		struct keeping keeping = {r, r->state[i], t->n};
		if (!r->state[i])
			return error_set(error, "out of memory for states");
		if (!state_text_walk(&r->bench, t, true, &r->points, keep_states, &keeping, error))
			return false;
		r->positions += t->n - 1 - t->n_prompt;
	}
	return true;
}

/* The first choices after rows [0, n) with these states, which go on behind the span; row i follows base + i
 * committed tokens. */
static bool choices(struct bridge_run* r, struct cache* cache, int base, int n, int from, const float* state,
                    struct result* out, struct error* error) {
	struct backend* backend = r->bench.engine->backend;
	struct segment segment[BATCH];
	int32_t row[BATCH];
	uint8_t want[BATCH];
	static const int32_t none[1] = {-1};
	for (int i = 0; i < n; i++) {
		segment[i] = (struct segment){.cache = cache, .base = base + i, .n = 1};
		row[i] = i;
		want[i] = WANT_TOKEN;
		const struct pass place = {.kind = PASS_EXACT,
		                           .n = 1,
		                           .n_segments = 1,
		                           .segment = &segment[i],
		                           .parent = none,
		                           .state = state + (size_t)i * (size_t)dim_of(r),
		                           .first = from,
		                           .last = from,
		                           .tap = -1};
		if (!backend->run(backend, &place, error))
			return false;
	}
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = n,
	                          .segment = segment,
	                          .row = row,
	                          .first = from,
	                          .last = 2 * blocks_of(r),
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	const bool good = backend->run(backend, &pass, error);
	backend->discard(cache);
	return good;
}

/* bridged = before + W·[before; final of the row before] + b, n rows. */
static void apply(struct bridge_run* r, int kind, const float* before, const float* final, int n) {
	const size_t dim = (size_t)dim_of(r), inputs = kind == 2 ? 2 * dim : dim;
	memcpy(r->bridged, before, (size_t)n * dim * sizeof(float));
	if (kind == 0)
		return;
	gsl_matrix_float_view to = gsl_matrix_float_view_array(r->bridged, (size_t)n, dim);
	gsl_matrix_float_const_view x = gsl_matrix_float_const_view_array(before, (size_t)n, dim);
	gsl_matrix_float_const_view f = gsl_matrix_float_const_view_array(final, (size_t)n, dim);
	gsl_matrix_float_view w = gsl_matrix_float_view_array_with_tda(r->weight, dim, dim, inputs);
	gsl_blas_sgemm(CblasNoTrans, CblasTrans, 1, &x.matrix, &w.matrix, 1, &to.matrix);
	if (kind == 2) {
		gsl_matrix_float_view v = gsl_matrix_float_view_array_with_tda(r->weight + dim, dim, dim, inputs);
		gsl_blas_sgemm(CblasNoTrans, CblasTrans, 1, &f.matrix, &v.matrix, 1, &to.matrix);
	}
	for (size_t i = 0; i < (size_t)n * dim; i++)
		r->bridged[i] += r->bias[i % dim];
}

static bool judge(struct bridge_run* r, const struct span* s, int kind, double* share, struct error* error) {
	const size_t dim = (size_t)dim_of(r);
	struct result out[BATCH];
	long right = 0;
	for (int i = 0; i < r->judge.n; i++) {
		const struct state_text* t = &r->judged[i];
		const float* before = r->state[i] + (size_t)s->before * (size_t)t->n * dim;
		const float* final = r->state[i] + (size_t)(r->points.n - 1) * (size_t)t->n * dim;
		for (int first = t->n_prompt; first < t->n - 1; first += BATCH) {
			const int n = t->n - 1 - first < BATCH ? t->n - 1 - first : BATCH;
			apply(r, kind, before + (size_t)first * dim, final + (size_t)(first - 1) * dim, n);
			if (!choices(r, t->cache, first, n, 2 * s->last + 2, r->bridged, out, error))
				return false;
			for (int j = 0; j < n; j++)
				right += out[j].token == t->id[first + j + 1];
		}
	}
	*share = (double)right / (double)r->positions;
	return true;
}

/* What was fitted last, for its price and its file. */
static bool keep_bridge(struct bridge_run* r, struct span* s, struct error* error) {
	char path[4096];
	kept_bridge_free(&s->bridge);
	if (!kept_bridge_make(&s->bridge, dim_of(r), s->first, s->last, r->weight, r->bias))
		return error_set(error, "out of memory for a bridge");
	if (!r->save)
		return true;
	if (snprintf(path, sizeof path, "%s-%d-%d.safetensors", r->save, s->first, s->last) >= (int)sizeof path)
		return error_set(error, "--save: the path is too long");
	return bridge_file_write(path, &s->bridge.bridge, r->bench.model->fingerprint, error);
}

static bool judge_amount(struct bridge_run* r, struct error* error) {
	const int dim = dim_of(r);
	for (int i = 0; i < r->n_spans; i++)
		for (int kind = 0; kind < KINDS; kind++) {
			struct span* s = &r->span[i];
			struct ridge_fit* fit = &s->fit[r->at][kind];
			bench_progress((double)i / r->n_spans, "bridges of %ld tokens", r->rows);
			if (kind > 0 &&
			    !ridge_solve(&s->gram, kind == 2 ? 1 + 2 * dim : 1 + dim, r->weight, r->bias, fit))
				return error_set(error, "%ld tokens are too few to learn from, or memory is",
				                 gram_rows(&s->gram));
			if (kind == 0 && r->at > 0)
				s->right[r->at][0] = s->right[0][0];
			else if (!judge(r, s, kind, &s->right[r->at][kind], error))
				return false;
			if (kind == KINDS - 1 && !keep_bridge(r, s, error))
				return false;
		}
	r->amount[r->at++] = r->rows;
	return true;
}

static bool learn(struct bridge_run* r, struct error* error) {
	for (int i = 0; i < r->learn.n && r->at < r->n_amounts; i++) {
		bench_progress((double)i / r->learn.n, "learning, %ld tokens", r->rows);
		if (!state_text_walk(&r->bench, &r->learned[i], false, &r->points, take_rows, r, error))
			return false;
		if (r->rows >= r->amount[r->at] && !judge_amount(r, error))
			return false;
	}
	if (r->at < r->n_amounts && (r->at == 0 || r->rows > r->amount[r->at - 1]) && !judge_amount(r, error))
		return false;
	r->n_amounts = r->at;
	return true;
}

/* ---- prices --------------------------------------------------------------------------------- */

/* Seconds of draft steps of one row, the median, at the end of a judged text. */
static bool time_step(struct bridge_run* r, const struct mask* skip, const struct bridge* bridge,
                      double* seconds, struct error* error) {
	enum { TIMES = 15 };
	const struct state_text* t = &r->judged[0];
	struct backend* backend = r->bench.engine->backend;
	const uint8_t want = WANT_TOKEN | WANT_TOP;
	struct result out = {.top = 4};
	double sample[TIMES];
	const struct segment segment = {.cache = t->cache, .base = t->cache->committed, .n = 1};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = 1,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = &t->id[t->n - 1],
	                          .skip = skip,
	                          .bridge = bridge,
	                          .last = 2 * blocks_of(r),
	                          .head = true,
	                          .tap = -1,
	                          .want = &want,
	                          .out = &out};
	for (int i = 0; i < TIMES; i++) {
		const double before = seconds_now();
		if (!backend->run(backend, &pass, error))
			return false;
		sample[i] = seconds_now() - before;
		backend->discard(t->cache);
	}
	*seconds = bench_median(sample, TIMES);
	return true;
}

static bool measure_prices(struct bridge_run* r, struct error* error) {
	if (!bench_measure_rows(&r->bench, 128, 9, r->row_seconds, error))
		return false;
	for (int i = 0; i < r->n_spans; i++) {
		struct span* s = &r->span[i];
		const struct bridge* bridge = r->bench.engine->backend->has_bridges ? &s->bridge.bridge : NULL;
		double plain, drafted, bridged;
		struct mask skip = {0};
		for (int l = 2 * s->first; l < 2 * s->last + 2; l++)
			mask_set(&skip, l, true);
		if (!time_step(r, NULL, NULL, &plain, error) || !time_step(r, &skip, NULL, &drafted, error) ||
		    !time_step(r, &skip, bridge, &bridged, error))
			return false;
		s->cost[0] = drafted / plain;
		s->cost[1] = bridge ? bridged / plain : NAN;
	}
	return true;
}

/* Plain steps' time over that of rounds of drafts as long as is best, each step right with chance alpha. */
static double gain(double alpha, double c, const struct price_list* prices) {
	double best = 1, tokens = 1, chance = 1;
	for (int n = 1; n <= CHAIN; n++) {
		tokens += chance *= alpha;
		best = fmax(best, tokens / (n * c + prices_verify(prices, n + 1)));
	}
	return best;
}

static struct price_list measured(const struct bridge_run* r) {
	struct price_list prices = prices_of_slope(0);
	for (int k = 0; k + 1 < ROW_COUNTS; k++)
		for (int n = bench_rows[k]; n <= bench_rows[k + 1]; n++) {
			const double part = (double)(n - bench_rows[k]) / (bench_rows[k + 1] - bench_rows[k]);
			prices.verify[n] =
			    (r->row_seconds[k] + part * (r->row_seconds[k + 1] - r->row_seconds[k])) / r->row_seconds[0];
		}
	return prices;
}

/* ---- telling -------------------------------------------------------------------------------- */

static int tell(const struct bridge_run* r) {
	const struct price_list here = measured(r), flat = prices_of_slope(0.006);
	printf("%s on %s: %d unseen texts, %ld positions; v(2) %.2f, v(4) %.2f\n\n",
	       swiftlet_model_name(r->bench.model), swiftlet_engine_name(r->bench.engine), r->judge.n,
	       r->positions, here.verify[2], here.verify[4]);
	printf("%-9s %6s %8s %-11s %7s %9s %9s %10s %10s\n", "blocks", "c", "tokens", "", "alpha", "error",
	       "ridge", "gain here", "at 0.006");
	for (int i = 0; i < r->n_spans; i++)
		for (int a = 0; a < r->n_amounts; a++)
			for (int kind = a > 0; kind < KINDS; kind++) {
				const struct span* s = &r->span[i];
				char blocks[24];
				snprintf(blocks, sizeof blocks, "%d-%d", s->first, s->last);
				printf("%-9s %6.3f %8lld %-11s %7.3f %9.4f %9.0e %10.3f %10.3f\n", blocks, s->cost[kind > 0],
				       kind ? (long long)r->amount[a] : 0, kind_name[kind], s->right[a][kind],
				       s->fit[a][kind].error, s->fit[a][kind].lambda,
				       gain(s->right[a][kind], s->cost[kind > 0], &here),
				       gain(s->right[a][kind], s->cost[kind > 0], &flat));
			}
	return STATUS_DONE;
}

static int tell_json(const struct bridge_run* r) {
	const struct price_list here = measured(r), flat = prices_of_slope(0.006);
	cJSON *out = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(out, "bridges");
	bench_describe(&r->bench, out);
	cJSON_AddNumberToObject(out, "positions", (double)r->positions);
	bench_json_rows(out, r->row_seconds);
	for (int i = 0; i < r->n_spans; i++)
		for (int a = 0; a < r->n_amounts; a++)
			for (int kind = a > 0; kind < KINDS; kind++) {
				const struct span* s = &r->span[i];
				cJSON* one = cJSON_CreateObject();
				cJSON_AddNumberToObject(one, "first", s->first);
				cJSON_AddNumberToObject(one, "last", s->last);
				cJSON_AddNumberToObject(one, "c", s->cost[kind > 0]);
				cJSON_AddNumberToObject(one, "tokens", kind ? (double)r->amount[a] : 0);
				cJSON_AddStringToObject(one, "kind", kind_name[kind]);
				cJSON_AddNumberToObject(one, "alpha", s->right[a][kind]);
				cJSON_AddNumberToObject(one, "error", s->fit[a][kind].error);
				cJSON_AddNumberToObject(one, "gain", gain(s->right[a][kind], s->cost[kind > 0], &here));
				cJSON_AddNumberToObject(one, "gain_flat", gain(s->right[a][kind], s->cost[kind > 0], &flat));
				cJSON_AddItemToArray(list, one);
			}
	return bench_print_json(out);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Without prompts to learn from, every other one is. */
static bool read_prompts(struct bridge_run* r, const char* input, const char* more, struct error* error) {
	const int context = options_context(&r->bench.options, r->bench.model);
	if (!prompt_list_read(&r->judge, r->bench.model, input, error))
		return false;
	if (more) {
		if (!prompt_list_read(&r->learn, r->bench.model, more, error))
			return false;
	} else {
		int kept = 0;
		for (int i = 0; i < r->judge.n; i++)
			if (i % 2 == 0)
				r->learn.prompt[r->learn.n++] = r->judge.prompt[i];
			else
				r->judge.prompt[kept++] = r->judge.prompt[i];
		r->judge.n = kept;
	}
	prompt_list_fit(&r->judge, context);
	prompt_list_fit(&r->learn, context);
	r->judged = calloc((size_t)r->judge.n + 1, sizeof *r->judged);
	r->learned = calloc((size_t)r->learn.n + 1, sizeof *r->learned);
	if (r->judge.n == 0 || r->learn.n == 0)
		return error_set(error, "no prompts to %s", r->learn.n == 0 ? "learn from" : "judge by");
	return (r->judged && r->learned) || error_set(error, "out of memory for texts");
}

static bool read_amounts(struct bridge_run* r, const char* text, struct error* error) {
	while (*text) {
		int used = 0;
		long long amount;
		if (r->n_amounts == MOST_AMOUNTS || sscanf(text, "%lld%n", &amount, &used) != 1 || amount < 1 ||
		    (r->n_amounts > 0 && amount <= r->amount[r->n_amounts - 1]))
			return error_set(error, "--tokens: expected up to %d ascending numbers at \"%.20s\"",
			                 MOST_AMOUNTS, text);
		r->amount[r->n_amounts++] = amount;
		text += used;
		text += *text == ',';
	}
	return r->n_amounts > 0 || error_set(error, "--tokens: no number");
}

/* Prompts are answered as far as the most tokens to learn from ask for. */
static bool answer_learned(struct bridge_run* r, struct error* error) {
	enum { STRIDE = 16 };
	long tokens = 0;
	int done = 0;
	while (done < r->learn.n && tokens < r->amount[r->n_amounts - 1]) {
		const int n = r->learn.n - done < STRIDE ? r->learn.n - done : STRIDE;
		if (!state_texts_answer(&r->bench, r->learn.prompt + done, n, r->learned + done, error))
			return false;
		for (int i = done; i < done + n; i++)
			tokens += r->learned[i].n - 1 - INFLUENCE_FIRST;
		done += n;
	}
	for (int i = done; i < r->learn.n; i++) {
		free(r->learn.prompt[i].id);
		free(r->learn.prompt[i].task);
	}
	r->learn.n = done;
	return true;
}

static bool run(struct bridge_run* r, const char* input, const char* more, const char* spans,
                struct error* error) {
	return read_prompts(r, input, more, error) &&
	       state_texts_answer(&r->bench, r->judge.prompt, r->judge.n, r->judged, error) &&
	       answer_learned(r, error) && (spans ? read_spans(r, spans, error) : choose_spans(r, error)) &&
	       open_spans(r, error) && keep_judged(r, error) && learn(r, error) && measure_prices(r, error);
}

static void close_run(struct bridge_run* r) {
	for (int i = 0; i < r->n_spans; i++) {
		gram_close(&r->span[i].gram);
		kept_bridge_free(&r->span[i].bridge);
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
	bench_close(&r->bench);
}

int bench_bridge_main(int argc, char** argv) {
	struct error error = {{0}};
	struct swiftlet_options options;
	const char *model_option = NULL, *input = "tools/chat.jsonl", *more = NULL, *spans = NULL;
	const char* amounts = "2000,8000,32000";
	bool json = false;
	struct bridge_run* r = calloc(1, sizeof *r);
	if (!r)
		return complain(STATUS_FAILED, "out of memory");
	const struct option option[] = {
	    {"model", 'm', "MODEL", "a model (builtin)", OPTION_TEXT, &model_option, 0, 0},
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0},
	    {"input", 'i', "FILE", "prompts, as `swiftlet stream` takes them (tools/chat.jsonl)", OPTION_TEXT,
	     &input, 0, 0},
	    {"learn", 0, "FILE", "prompts to learn from (every other of the prompts)", OPTION_TEXT, &more, 0, 0},
	    {"spans", 0, "LIST", "blocks that are left out, 9-16,4-18 (those of least influence)", OPTION_TEXT,
	     &spans, 0, 0},
	    {"tokens", 0, "LIST", "judged after so many tokens learned from (2000,8000,32000)", OPTION_TEXT,
	     &amounts, 0, 0},
	    {"save", 0, "PREFIX", "keep the bridges in PREFIX-FIRST-LAST.safetensors", OPTION_TEXT, &r->save, 0,
	     0},
	};
	struct command_line line = {
	    .name = "bench bridge",
	    .usage =
	        "[MODEL|-m MODEL] [-i FILE] [--learn FILE] [--spans LIST] [--tokens LIST] [--json] [options]",
	    .about =
	        "Counts how often a draft step is right that leaves a span of blocks out, with and without a\n"
	        "bridge in its place that was fitted by least squares to states of full passes.",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &options,
	    .max_words = 1,
	};
	int status = options_parse(&line, argc, argv);
	if (status == OPTIONS_GO_ON) {
		const char* const model = options_model(&line, model_option);
		status = !model ? STATUS_USAGE : bench_open(&r->bench, model, &options, json);
		if (status == OPTIONS_GO_ON) {
			const bool good = read_amounts(r, amounts, &error) && run(r, input, more, spans, &error);
			bench_progress_end();
			status = !good ? complain(STATUS_FAILED, "%s", error.message) : json ? tell_json(r) : tell(r);
		}
		close_run(r);
	}
	free(r);
	return status;
}
