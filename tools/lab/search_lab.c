/* Text, windows, scores and influence; search_lab.h says what for. */
#include "tools/lab/search_lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text/tokenizer.h"

/* Rows at the start of a text where massive activations live, and texts whose prompts influence is from. */
enum { LEFT_OUT = 4, INFLUENCE_TEXTS = 3, INFLUENCE_ROWS = 64 };

/* ---- passes ------------------------------------------------------------------------------- */

/* n rows in a chain from `base`; results of rows marked in `want`. */
static bool run(struct lab_text* t, int base, int n, const struct mask* skip, int tap, float* states,
                const uint8_t* want, struct result* out, struct error* error) {
	struct backend* backend = t->cache->backend;
	const struct segment segment = {.cache = t->cache, .base = base, .n = n};
	struct pass pass =
	    pass_over(&segment, t->token + base, NULL, 2 * backend->weights->shape.n_blocks, want, out);
	pass.skip = skip;
	pass.head = true;
	pass.tap = tap;
	pass.tap_out = states;
	return backend->run(backend, &pass, error);
}

static bool write_text(struct lab* lab, struct lab_text* t, const int32_t* prompt, int n_prompt, int n,
                       int32_t eos, struct error* error) {
	uint8_t want[MAX_ROWS];
	struct result out[MAX_ROWS];
	int32_t path[MAX_ROWS];
	t->cache = lab->backend->cache_open(lab->backend, n_prompt + n, DTYPE_F32, error);
	t->token = malloc(sizeof *t->token * (size_t)(n_prompt + n));
	if (!t->cache || !t->token)
		return t->cache ? error_set(error, "out of memory for a text") : false;
	memcpy(t->token, prompt, sizeof *prompt * (size_t)n_prompt);
	t->cache->prompt_length = t->n_prompt = n_prompt;
	for (int i = 0; i < MAX_ROWS; i++)
		path[i] = i;
	for (int have = n_prompt; t->n < n;) {
		const int base = t->cache->committed, rows = have - base < 64 ? have - base : 64;
		memset(want, WANT_NOTHING, sizeof want);
		want[rows - 1] = WANT_TOKEN;
		if (!run(t, base, rows, NULL, -1, NULL, want, out, error))
			return false;
		lab->backend->commit(t->cache, path, rows);
		if (base + rows < have)
			continue;
		const int32_t next = out[rows - 1].token;
		if (next == eos)
			break;
		t->token[have++] = next;
		t->n++;
	}
	return true;
}

/* ---- influence ---------------------------------------------------------------------------- */

/* Adds to sum (2L), over the first rows of a text's prompt and tokens. */
static bool add_influence(struct lab* lab, struct lab_text* t, double* sum, int* rows, struct error* error) {
	const int last = 2 * lab->backend->weights->shape.n_blocks;
	const int n = t->cache->committed < INFLUENCE_ROWS ? t->cache->committed : INFLUENCE_ROWS;
	const uint8_t want[INFLUENCE_ROWS] = {0};
	struct result out[INFLUENCE_ROWS];
	float* influence = malloc((size_t)last * (size_t)n * sizeof *influence);
	if (!influence)
		return error_set(error, "out of memory for influence");
	const struct segment segment = {.cache = t->cache, .n = n};
	struct pass pass = pass_over(&segment, t->token, NULL, last, want, out);
	pass.influence = influence;
	const bool good = lab->backend->run(lab->backend, &pass, error);
	lab->backend->discard(t->cache);
	for (int s = 0; good && s < last; s++)
		for (int i = LEFT_OUT; i < n; i++)
			sum[s] += influence[s * n + i];
	free(influence);
	*rows += n > LEFT_OUT ? n - LEFT_OUT : 0;
	return good;
}

static bool measure_influence(struct lab* lab, struct error* error) {
	const int last = 2 * lab->backend->weights->shape.n_blocks;
	int rows = 0;
	for (int i = 0; i < lab->n_search && i < INFLUENCE_TEXTS; i++)
		if (!add_influence(lab, &lab->search[i], lab->influence, &rows, error))
			return false;
	for (int s = 0; s < last; s++)
		lab->influence[s] /= rows;
	return true;
}

/* ---- windows ------------------------------------------------------------------------------ */

static float* full_states(const struct lab* lab, int w) {
	return lab->full + (size_t)w * LAB_WINDOW * (size_t)lab->dim;
}

/* Hits among the window's first rows, and their last states. A NULL mask: the full model, no hits counted. */
static int matches_of(struct lab* lab, struct lab_text* t, const struct lab_window* w,
                      const struct mask* mask, int rows, float* states) {
	uint8_t want[MAX_ROWS];
	struct result out[MAX_ROWS];
	struct error error;
	int matches = 0;
	memset(want, mask ? WANT_TOKEN : WANT_NOTHING, sizeof want);
	const int tap = states ? 2 * lab->backend->weights->shape.n_blocks - 1 : -1;
	if (!run(t, w->base, rows, mask, tap, states, want, out, &error))
		return 0; /* states that are no numbers predict nothing */
	lab->backend->discard(t->cache);
	for (int i = 0; mask && i < rows; i++)
		matches += out[i].token == t->token[w->base + i + 1];
	return matches;
}

/* ---- opening ------------------------------------------------------------------------------ */

static int cut(const struct lab_text* text, int n_texts, struct lab_window* window) {
	int n = 0;
	for (int i = 0; i < n_texts; i++)
		for (int at = 0; at + LAB_FIRST_ROWS < text[i].n; at += LAB_WINDOW) {
			const int left = text[i].n - 1 - at;
			const int size = left < LAB_WINDOW ? left : LAB_WINDOW;
			if (size >= LAB_FIRST_ROWS)
				window[n++] = (struct lab_window){i, text[i].n_prompt + at, size};
		}
	return n;
}

static bool take_memory(struct lab* lab, size_t texts, size_t windows, struct error* error) {
	const struct weight_table* weights = lab->backend->weights;
	const size_t dim = (size_t)lab->dim;
	lab->search = calloc(texts, sizeof *lab->search);
	lab->judge = lab->search ? lab->search + lab->n_search : NULL;
	lab->window = calloc(windows, sizeof *lab->window);
	lab->beside = calloc(windows, sizeof *lab->beside);
	lab->influence = calloc(2 * (size_t)weights->shape.n_blocks, sizeof *lab->influence);
	lab->gain = calloc(dim, sizeof *lab->gain);
	lab->full = calloc(windows * LAB_WINDOW * dim, sizeof *lab->full);
	lab->draft = calloc(LAB_WINDOW * dim, sizeof *lab->draft);
	if (!lab->search || !lab->window || !lab->beside || !lab->influence || !lab->gain || !lab->full ||
	    !lab->draft)
		return error_set(error, "out of memory for %d texts", (int)texts);
	for (size_t j = 0; j < dim; j++)
		lab->gain[j] = 1;
	if (weights->output_norm.data)
		dtype_to_float(weights->output_norm.type, weights->output_norm.data, lab->gain, lab->dim);
	for (size_t j = 0; weights->output_norm.data && weights->shape.norm_plus_one && j < dim; j++)
		lab->gain[j] += 1;
	return true;
}

bool lab_open(struct lab* lab, const struct bench* bench, int32_t* const* prompt, const int* count,
              const int* tokens, int n, int n_search, struct error* error) {
	struct backend* backend = bench->engine->backend;
	*lab = (struct lab){.backend = backend,
	                    .dim = backend->weights->shape.dim,
	                    .n_search = n_search,
	                    .n_judge = n - n_search};
	size_t windows = 0;
	for (int i = 0; i < n; i++)
		windows += (size_t)tokens[i] / LAB_WINDOW + 1;
	if (!take_memory(lab, (size_t)n, windows, error))
		return false;
	const int32_t eos = tokenizer_eos(bench->model->tokenizer);
	for (int i = 0; i < n; i++) {
		bench_progress((double)i / n, "writing text %d of %d", i + 1, n);
		if (!write_text(lab, &lab->search[i], prompt[i], count[i], tokens[i], eos, error))
			return false;
	}
	lab->n_windows = cut(lab->search, n_search, lab->window);
	lab->n_beside = cut(lab->judge, lab->n_judge, lab->beside);
	if (lab->n_windows == 0 || lab->n_beside == 0)
		return error_set(error, "the texts are too short: no window of %d tokens", LAB_FIRST_ROWS);
	for (int w = 0; w < lab->n_windows; w++)
		matches_of(lab, &lab->search[lab->window[w].text], &lab->window[w], NULL, lab->window[w].size,
		           full_states(lab, w));
	return measure_influence(lab, error);
}

void lab_close(struct lab* lab) {
	for (int i = 0; lab->search && i < lab->n_search + lab->n_judge; i++) {
		if (lab->search[i].cache)
			lab->backend->cache_close(lab->search[i].cache);
		free(lab->search[i].token);
	}
	free(lab->gain);
	free(lab->full);
	free(lab->draft);
	free(lab->search);
	free(lab->window);
	free(lab->beside);
	free(lab->influence);
	free(lab->judged);
}

/* ---- scores ------------------------------------------------------------------------------- */

static double one_minus_cosine(const float* x, const float* y, const float* gain, int dim) {
	double xx = 0, yy = 0, xy = 0;
	for (int j = 0; j < dim; j++) {
		const double a = (double)gain[j] * x[j], b = (double)gain[j] * y[j];
		xx += a * a;
		yy += b * b;
		xy += a * b;
	}
	return fmax(0, 1 - xy / sqrt(xx * yy));
}

int lab_score(struct lab* lab, const struct mask* mask, int w, int rows, double* distance) {
	const struct lab_window* window = &lab->window[w];
	const size_t dim = (size_t)lab->dim;
	const float* full = full_states(lab, w);
	const int matches = matches_of(lab, &lab->search[window->text], window, mask, rows, lab->draft);
	double sum = 0;
	for (size_t i = 0; i < (size_t)rows; i++)
		sum += one_minus_cosine(full + i * dim, lab->draft + i * dim, lab->gain, lab->dim);
	*distance = sum / rows;
	return matches;
}

double lab_judge(struct lab* lab, const struct mask* mask) {
	for (int i = 0; i < lab->n_judged; i++)
		if (mask_equal(&lab->judged[i].mask, mask))
			return lab->judged[i].matchness;
	int64_t matches = 0, rows = 0;
	for (int w = 0; w < lab->n_beside; w++) {
		const struct lab_window* window = &lab->beside[w];
		matches += matches_of(lab, &lab->judge[window->text], window, mask, window->size, NULL);
		rows += window->size;
	}
	const double matchness = (double)matches / (double)rows;
	if (lab->n_judged == lab->judged_capacity) {
		const int capacity = 2 * lab->judged_capacity + 64;
		struct judged* more = realloc(lab->judged, (size_t)capacity * sizeof *more);
		if (!more)
			return matchness;
		lab->judged = more;
		lab->judged_capacity = capacity;
	}
	lab->judged[lab->n_judged++] = (struct judged){*mask, matchness};
	return matchness;
}
