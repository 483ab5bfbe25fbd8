/* config.json files of unusual but legal shapes against transformers: every
 * tests/core/golden/configs/NAME.json is a test. It holds the config, which tensors a checkpoint has, a text,
 * and log-probabilities that transformers gives some tokens after some of its positions
 * (tools/oracle/configs.py). The weights are made here, by the same rule as there; so a file is small.
 * Log-probabilities are within 2e-4. Files given as arguments are tested instead. A model's MTP layer, or its
 * assistant in a folder of its own, is compared likewise. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/files/json.h"
#include "core/model/model.h"
#include "tests/config_gguf.h"
#include "tests/must.h"
#include "tests/sanitized.h"

enum { MOST_CASES = 512, MOST_TOKENS = 256, MOST_IDS = 64 };

struct text {
	int32_t token[MOST_TOKENS], id[MOST_IDS];
	int n, prompt, n_ids;
};

static int numbers(const cJSON* array, int32_t* out, int limit) {
	int n = 0;
	const cJSON* one;
	cJSON_ArrayForEach (one, array) {
		assert_true(n < limit);
		out[n++] = (int32_t)one->valuedouble;
	}
	return n;
}

/* ---- running ---------------------------------------------------------------------------------- */

struct run {
	struct backend* backend;
	struct cache* cache;
	float* logits; /* (MOST_TOKENS, vocab) of the text */
	float* states; /* (MOST_TOKENS, dim) as the head reads them */
	int vocab, blocks, dim;
};

static void run_rows(struct run* r, const struct text* t, int base, int n) {
	struct result out[MOST_TOKENS];
	uint8_t want[MOST_TOKENS];
	int32_t path[MOST_TOKENS];
	for (int i = 0; i < n; i++) {
		want[i] = WANT_LOGITS;
		path[i] = i;
		out[i] = (struct result){.logits = r->logits + (size_t)(base + i) * (size_t)r->vocab};
	}
	const struct segment segment = {.cache = r->cache, .base = base, .n = n};
	struct pass pass = pass_over(&segment, t->token + base, NULL, 2 * r->blocks, want, out);
	pass.head = true;
	pass.normed_out = r->states + (size_t)base * (size_t)r->dim;
	must_run(r->backend, &pass);
	r->backend->commit(r->cache, path, n);
}

/* The prompt as one pass, the rest row by row, as a generation goes. */
static void run_text(struct run* r, const struct model* model, const struct text* t, const char* isa) {
	const struct backend_options options = {.threads = 2, .isa = isa, .context = t->n + 1};
	r->vocab = model->weights.shape.vocab;
	r->blocks = model->weights.shape.n_blocks;
	r->dim = model->weights.shape.dim;
	r->logits = calloc((size_t)t->n * (size_t)r->vocab, sizeof *r->logits);
	r->states = calloc((size_t)t->n + 1, (size_t)r->dim * sizeof *r->states);
	r->backend = must_open(cpu_open, &model->weights, &options);
	r->cache = must_open_cache(r->backend, t->n + 1, DTYPE_F32);
	r->cache->prompt_length = t->prompt;
	run_rows(r, t, 0, t->prompt);
	for (int i = t->prompt; i < t->n; i++)
		run_rows(r, t, i, 1);
}

static void end_run(struct run* r) {
	r->backend->cache_close(r->cache);
	r->backend->close(r->backend);
	free(r->logits);
	free(r->states);
}

/* The farthest of a row's log-probabilities from transformers'. */
static double farthest(const struct run* r, const struct text* t, int row, const cJSON* expected) {
	const float* x = r->logits + (size_t)row * (size_t)r->vocab;
	double most = (double)x[0], sum = 0, worst = 0;
	for (int v = 1; v < r->vocab; v++)
		most = fmax(most, (double)x[v]);
	for (int v = 0; v < r->vocab; v++)
		sum += exp((double)x[v] - most);
	const cJSON* one = expected->child;
	for (int i = 0; i < t->n_ids; i++, one = one->next) {
		assert_non_null(one);
		const double error = fabs((double)x[t->id[i]] - most - log(sum) - one->valuedouble);
		worst = error > worst || isnan(error) ? error : worst;
	}
	return worst;
}

/* ---- the MTP layer ----------------------------------------------------------------------------- */

/* The logits of its rows from r->states: of tokens 1 to n - 1 beside the states before them in one pass, and
 * of token 0 beside the layer's own last state in another. */
static void run_mtp(struct run* r, const struct model* model, const struct text* t, const char* isa) {
	struct error error = {""};
	struct result out[MOST_TOKENS];
	uint8_t want[MOST_TOKENS];
	int32_t token[MOST_TOKENS];
	const struct backend_options options = {.threads = 2, .isa = isa, .context = t->n + 1};
	struct backend* backend = must_open(cpu_open, &model->mtp, &options);
	struct cache* cache = backend->cache_open(backend, t->n + 1, DTYPE_F32, &error);
	float* own = calloc((size_t)t->n, (size_t)r->dim * sizeof *own);
	for (int i = 0; i < t->n; i++) {
		token[i] = t->token[(i + 1) % t->n];
		want[i] = WANT_LOGITS;
		out[i] = (struct result){.logits = r->logits + (size_t)i * (size_t)r->vocab};
	}
	for (int last = 0; last < 2; last++) {
		const int from = last ? t->n - 1 : 0;
		const int32_t parent = from - 1;
		const struct segment segment = {.cache = cache, .n = last ? 1 : t->n - 1};
		struct pass pass =
		    pass_over(&segment, token + from, last ? &parent : NULL, 2, want + from, out + from);
		pass.head = true;
		pass.state = last ? own + (size_t)parent * (size_t)r->dim : r->states;
		pass.normed_out = own + (size_t)from * (size_t)r->dim;
		must_run(backend, &pass);
	}
	free(own);
	backend->cache_close(cache);
	backend->close(backend);
}

static void check_mtp(struct run* r, const struct model* model, const struct text* t, const cJSON* json,
                      const char* name, const char* isa) {
	const cJSON *row, *rows = json_field(json, "mtp_rows");
	double worst = 0;
	if (!rows)
		return;
	if (model->mtp.shape.n_blocks == 0)
		fail_msg("%s: no MTP layer was found: %s", name, model->mtp_note);
	run_mtp(r, model, t, isa);
	const cJSON* expected = part(json, "mtp_log_probabilities")->child;
	cJSON_ArrayForEach (row, rows) {
		worst = fmax(worst, farthest(r, t, (int)row->valuedouble, expected));
		expected = expected->next;
	}
	print_message("%s, %s: the MTP layer's log-probabilities within %.1e\n", name, isa, worst);
	assert_true(worst <= 2e-4);
}

/* ---- the assistant ------------------------------------------------------------------------------ */

static struct model* open_folder(const cJSON* json, const struct model_options* options, const char* name) {
	char folder[] = "/tmp/swiftlet-configs-XXXXXX";
	struct error error = {""};
	assert_non_null(mkdtemp(folder));
	write_folder(json, folder);
	struct model* model = model_open(folder, options, &error);
	drop_folder(folder); /* what is mapped stays */
	if (!model)
		fail_msg("%s: %s", name, error.message);
	return model;
}

struct drafts {
	struct run own; /* logits and states of its rows, one after another */
	const struct cache* reads;
	int later;
};

/* A row of a draft: a token and the state before it. */
static int32_t draft_row(struct drafts* d, int32_t token, const float* state, int row) {
	struct run* r = &d->own;
	const uint8_t want = WANT_LOGITS | WANT_TOKEN;
	const int32_t parent = row - 1;
	struct result out = {.logits = r->logits + (size_t)row * (size_t)r->vocab};
	struct error error = {""};
	const struct segment segment = {.cache = r->cache, .n = 1, .reads = d->reads, .later = d->later};
	struct pass pass = pass_over(&segment, &token, &parent, 2 * r->blocks, &want, &out);
	pass.head = true;
	pass.state = state;
	pass.normed_out = r->states + (size_t)row * (size_t)r->dim;
	if (!r->backend->run(r->backend, &pass, &error))
		fail_msg("%s", error.message);
	return out.token;
}

/* A draft after so many tokens of the text; the target's cache is cut to them. */
static double check_draft(struct drafts* d, const struct run* target, const struct text* t, int length,
                          const cJSON* drafts, const cJSON* expected) {
	const cJSON* drafted;
	const float* state = target->states + (size_t)(length - 1) * (size_t)target->dim;
	int32_t token = t->token[length];
	double worst = 0;
	int row = 0;
	target->backend->truncate(target->cache, length);
	d->reads = target->cache;
	d->later = length;
	cJSON_ArrayForEach (drafted, drafts) {
		token = draft_row(d, token, state, row);
		assert_int_equal(token, (int)drafted->valuedouble);
		worst = fmax(worst, farthest(&d->own, t, row, expected));
		state = d->own.states + (size_t)row++ * (size_t)d->own.dim;
		expected = expected->next;
	}
	d->own.backend->discard(d->own.cache);
	return worst;
}

static struct model* open_gguf(const cJSON* json, const struct model_options* options) {
	char path[] = "/tmp/swiftlet-configs-XXXXXX";
	struct error error = {""};
	const int file = mkstemp(path);
	assert_true(file >= 0);
	close(file);
	write_gguf(json, path);
	struct model* model = model_open(path, options, &error);
	unlink(path);
	if (!model)
		fail_msg("%s", error.message);
	return model;
}

/* After so many tokens of the text, from the longest to the shortest. */
static void check_drafts(struct run* r, const struct text* t, const cJSON* assistant, struct model* drafter,
                         const char* name, const char* isa) {
	const struct backend_options how = {.threads = 2, .isa = isa, .context = t->n + 1};
	struct error error = {""};
	struct drafts d = {.own = {.backend = cpu_open(&drafter->weights, &how, &error),
	                           .vocab = r->vocab,
	                           .blocks = drafter->weights.shape.n_blocks,
	                           .dim = r->dim}};
	if (!d.own.backend)
		fail_msg("%s: %s", name, error.message);
	d.own.cache = d.own.backend->cache_open(d.own.backend, 1, DTYPE_F32, &error);
	d.own.logits = calloc((size_t)t->n * (size_t)r->vocab, sizeof *d.own.logits);
	d.own.states = calloc((size_t)t->n, (size_t)r->dim * sizeof *d.own.states);
	const cJSON *rows = part(assistant, "rows"), *drafts = part(assistant, "drafts"),
	            *expected = part(assistant, "log_probabilities");
	double worst = 0;
	for (int i = cJSON_GetArraySize(rows); i-- > 0;)
		worst =
		    fmax(worst, check_draft(&d, r, t, (int)cJSON_GetArrayItem(rows, i)->valuedouble,
		                            cJSON_GetArrayItem(drafts, i), cJSON_GetArrayItem(expected, i)->child));
	print_message("%s, %s: the assistant's log-probabilities within %.1e\n", name, isa, worst);
	assert_true(worst <= 2e-4);
	end_run(&d.own);
	model_close(drafter);
}

/* The folder's, and where its head is whole GGUF's. */
static void check_assistant(struct run* r, const struct model* model, const struct text* t, const cJSON* json,
                            const char* name, const char* isa) {
	const cJSON* assistant = json_field(json, "assistant");
	const struct model_options options = {.target = model};
	if (!assistant)
		return;
	check_drafts(r, t, assistant, open_folder(assistant, &options, name), name, isa);
	if (json_field(part(assistant, "config"), "use_ordered_embeddings"))
		return;
	end_run(r);
	run_text(r, model, t, isa);
	check_drafts(r, t, assistant, open_gguf(assistant, &options), name, isa);
}

static void check_ends(const struct model* model, const cJSON* json) {
	int32_t end[MAX_END_TOKENS];
	const cJSON* ends = json_field(json, "ends");
	if (!ends)
		return;
	const int n = numbers(ends, end, MAX_END_TOKENS);
	assert_int_equal(model->n_end_tokens, n);
	for (int i = 0; i < n; i++)
		assert_true(model_is_end(model, end[i]));
}

static void check_model(const struct model* model, const cJSON* json, const char* name) {
	static const char* const isa[] = {"reference", "auto"};
	struct text t = {.prompt = (int)part(json, "prompt")->valuedouble};
	t.n = numbers(part(json, "tokens"), t.token, MOST_TOKENS);
	t.n_ids = numbers(part(json, "ids"), t.id, MOST_IDS);
	check_ends(model, json);
	for (int i = 0; i < 2; i++) {
		if (SANITIZED && i != (int)strlen(name) % 2) /* else each config by one of the kernels */
			continue;
		struct run r;
		double worst = 0;
		const cJSON *row, *expected = part(json, "log_probabilities")->child;
		run_text(&r, model, &t, isa[i]);
		cJSON_ArrayForEach (row, part(json, "rows")) {
			const double error = farthest(&r, &t, (int)row->valuedouble, expected);
			if (!(error <= 2e-4))
				fail_msg("%s, %s: after position %d a log-probability is off by %g, allowed 2e-4", name,
				         isa[i], (int)row->valuedouble, error);
			worst = fmax(worst, error);
			expected = expected->next;
		}
		print_message("%s, %s: log-probabilities within %.1e\n", name, isa[i], worst);
		check_mtp(&r, model, &t, json, name, isa[i]);
		check_assistant(&r, model, &t, json, name, isa[i]);
		end_run(&r);
	}
}

static void check_case(void** state) {
	const char* file = *state;
	const char* name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	struct error error = {""};
	cJSON* json = json_read(file, &error);
	if (!json)
		fail_msg("%s", error.message);
	struct model* model = open_folder(json, NULL, name);
	check_model(model, json, name);
	model_close(model);
	cJSON_Delete(json);
}

/* ---- the cases -------------------------------------------------------------------------------- */

static int by_name(const void* a, const void* b) {
	return strcmp(((const struct CMUnitTest*)a)->name, ((const struct CMUnitTest*)b)->name);
}

static struct CMUnitTest test_of(char* file) {
	return (struct CMUnitTest){.name = file, .test_func = check_case, .initial_state = file};
}

static size_t find_cases(struct CMUnitTest* tests) {
	char path[1024];
	size_t n = 0;
	snprintf(path, sizeof path, "%s/tests/core/golden/configs", getenv("SWIFTLET_SOURCE"));
	DIR* list = opendir(path);
	for (struct dirent* entry; list && (entry = readdir(list)) && n < MOST_CASES;) {
		if (!strstr(entry->d_name, ".json"))
			continue;
		char file[1400];
		snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
		tests[n++] = test_of(strdup(file));
	}
	if (list)
		closedir(list);
	qsort(tests, n, sizeof *tests, by_name);
	return n;
}

int main(int n_files, char** files) {
	static struct CMUnitTest tests[MOST_CASES];
	size_t n = 0;
	if (!getenv("SWIFTLET_SOURCE")) {
		printf("skipped: SWIFTLET_SOURCE is not set to the source tree\n");
		return 77;
	}
	for (int i = 1; i < n_files && n < MOST_CASES; i++)
		tests[n++] = test_of(files[i]);
	if (n == 0)
		n = find_cases(tests);
	if (n == 0)
		return 1;
	return _cmocka_run_group_tests("configs", tests, n, NULL, NULL);
}
