/* Reads golden folders and holds a model to them, through the backend alone. */
#include "support_golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/files/json.h"
#include "core/files/mapping.h"

static int numbers(const cJSON* array, int* out, int limit) {
	int n = 0;
	const cJSON* one;
	assert_true(cJSON_IsArray(array));
	cJSON_ArrayForEach (one, array) {
		assert_true(n < limit);
		out[n++] = (int)one->valuedouble;
	}
	return n;
}

static int number(const cJSON* object, const char* field) {
	const cJSON* value = json_field(object, field);
	assert_true(cJSON_IsNumber(value));
	return (int)value->valuedouble;
}

static void read_mask(struct golden_mask* m, const cJSON* json) {
	int block[MAX_BLOCKS];
	static const char* const field[] = {"attention", "mlp"};
	for (int kind = 0; kind < 2; kind++) {
		const int n = numbers(json_field(json, field[kind]), block, MAX_BLOCKS);
		for (int i = 0; i < n; i++)
			mask_set(&m->skip, 2 * block[i] + kind, true);
	}
	m->base = number(json, "base");
	m->window = number(json, "window");
	m->matched = number(json, "matched");
	m->n_rows = numbers(json_field(json, "rows"), m->row, GOLDEN_ROWS);
}

void golden_read(struct golden* g, const char* folder, int vocab) {
	char path[1024];
	struct error error;
	memset(g, 0, sizeof *g);
	snprintf(path, sizeof path, "%s/golden.json", folder);
	cJSON* json = json_read(path, &error);
	if (!json)
		fail_msg("%s", error.message);
	g->n_prompt = numbers(json_field(json, "prompt"), g->prompt, GOLDEN_TOKENS);
	g->n_tokens = numbers(json_field(json, "tokens"), g->token, GOLDEN_TOKENS);
	g->n_rows = numbers(json_field(json, "rows"), g->row, GOLDEN_ROWS);
	g->n_kept = g->n_rows;
	const cJSON* theirs = json_field(json, "llama_cpp_error");
	g->llama_cpp_error = theirs ? theirs->valuedouble : 0;
	const cJSON* mask;
	cJSON_ArrayForEach (mask, json_field(json, "masks")) {
		assert_true(g->n_masks < GOLDEN_MASKS);
		read_mask(&g->mask[g->n_masks], mask);
		g->n_kept += g->mask[g->n_masks++].n_rows;
	}
	cJSON_Delete(json);
	struct mapping file;
	snprintf(path, sizeof path, "%s/logits.bin", folder);
	if (!mapping_open(&file, path, &error))
		fail_msg("%s", error.message);
	const size_t bytes = (size_t)g->n_kept * (size_t)vocab * sizeof(float);
	assert_int_equal(file.size, bytes);
	g->logits = malloc(bytes);
	assert_non_null(g->logits);
	memcpy(g->logits, file.data, bytes);
	mapping_close(&file);
}

void golden_free(struct golden* g) { free(g->logits); }

/* ---- running ------------------------------------------------------------------------------ */

struct run {
	const struct model* model;
	const struct golden_bound* bound;
	struct backend* backend;
	struct cache* cache;
	float* logits; /* (MAX_ROWS, vocab) */
	struct result out[MAX_ROWS];
	double worst;
};

/* Rows in a chain from `base` on; logits and argmax of each in run->out. */
static void run_chain(struct run* r, int base, const int32_t* token, int n, const struct mask* skip) {
	const size_t vocab = (size_t)r->model->weights.shape.vocab;
	uint8_t want[MAX_ROWS];
	struct error error = {""};
	for (int i = 0; i < n; i++) {
		want[i] = WANT_TOKEN | WANT_LOGITS;
		r->out[i] = (struct result){.logits = r->logits + (size_t)i * vocab};
	}
	const struct segment segment = {.cache = r->cache, .base = base, .n = n};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .skip = skip,
	                          .last = 2 * r->model->weights.shape.n_blocks,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = r->out};
	if (!r->backend->run(r->backend, &pass, &error))
		fail_msg("%s: %s", r->model->name, error.message);
}

static void commit_chain(struct run* r, int n) {
	int32_t path[MAX_ROWS];
	for (int i = 0; i < n; i++)
		path[i] = i;
	r->backend->commit(r->cache, path, n);
}

static void compare(struct run* r, const float* ours, const float* golden, const char* what, int row) {
	const int vocab = r->model->weights.shape.vocab;
	double largest = 0, error = 0;
	for (int v = 0; v < vocab; v++) {
		largest = fmax(largest, fabs((double)golden[v]));
		error = fmax(error, fabs((double)ours[v] - (double)golden[v]));
	}
	if (!(error <= r->bound->logits * largest))
		fail_msg("%s: %s, row %d: logits differ by %g of the largest, allowed %g", r->model->name, what, row,
		         error / largest, r->bound->logits);
	r->worst = fmax(r->worst, error / largest);
}

/* Greedy decoding, one row at a time; what is kept is compared as it comes. */
static void check_decoding(struct run* r, const struct golden* g) {
	const size_t vocab = (size_t)r->model->weights.shape.vocab;
	int kept = 0;
	r->cache->prompt_length = g->n_prompt;
	run_chain(r, 0, g->prompt, g->n_prompt, NULL);
	commit_chain(r, g->n_prompt);
	const struct result* last = &r->out[g->n_prompt - 1];
	for (int i = 0; i < g->n_tokens; i++) {
		if (kept < g->n_rows && g->row[kept] == i)
			compare(r, last->logits, g->logits + vocab * (size_t)kept++, "decoding", i);
		if (last->token != g->token[i])
			fail_msg("%s: token %d is %d, expected %d", r->model->name, i, last->token, g->token[i]);
		run_chain(r, g->n_prompt + i, &g->token[i], 1, NULL);
		commit_chain(r, 1);
		last = &r->out[0];
	}
}

/* One parallel pass over the window without the mask's sub-layers. */
static void check_mask(struct run* r, const struct golden* g, int which, const float* golden) {
	const struct golden_mask* m = &g->mask[which];
	const size_t vocab = (size_t)r->model->weights.shape.vocab;
	int32_t row[MAX_ROWS];
	for (int i = 0; i < m->window; i++) {
		const int at = m->base + i;
		row[i] = at < g->n_prompt ? g->prompt[at] : g->token[at - g->n_prompt];
	}
	run_chain(r, m->base, row, m->window, &m->skip);
	int matched = 0;
	for (int i = 0; i < m->window; i++)
		matched += r->out[i].token == g->token[m->base + i + 1 - g->n_prompt];
	if (matched != m->matched)
		fail_msg("%s: mask %d matches %d of %d tokens, expected %d", r->model->name, which, matched,
		         m->window, m->matched);
	for (int i = 0; i < m->n_rows; i++)
		compare(r, r->out[m->row[i]].logits, golden + vocab * (size_t)i, "masked", m->row[i]);
	r->backend->discard(r->cache);
}

double golden_check(const struct model* model, const struct golden* g, const struct golden_bound* bound) {
	struct error error = {""};
	struct run* r = calloc(1, sizeof *r);
	const int context = g->n_prompt + g->n_tokens + 1;
	const struct backend_options options = {.threads = 2, .isa = bound->isa, .context = context};
	const float* golden = g->logits + (size_t)g->n_rows * (size_t)model->weights.shape.vocab;
	assert_non_null(r);
	r->model = model;
	r->bound = bound;
	r->logits = calloc((size_t)MAX_ROWS, (size_t)model->weights.shape.vocab * sizeof(float));
	r->backend = cpu_open(&model->weights, &options, &error);
	if (!r->logits || !r->backend)
		fail_msg("%s: %s", model->name, error.message);
	r->cache = r->backend->cache_open(r->backend, context, bound->cache, &error);
	if (!r->cache)
		fail_msg("%s: %s", model->name, error.message);
	check_decoding(r, g);
	for (int i = 0; i < g->n_masks; i++) {
		check_mask(r, g, i, golden);
		golden += (size_t)g->mask[i].n_rows * (size_t)model->weights.shape.vocab;
	}
	const double worst = r->worst;
	r->backend->cache_close(r->cache);
	r->backend->close(r->backend);
	free(r->logits);
	free(r);
	return worst;
}
