/* A Gemma 4 assistant that drafts: the text is plain decoding's, greedy and sampled, with penalties, a
 * grammar and memory that was given away meanwhile; each of its rows begins with the state that plain
 * decoding has there, and reads the model's committed text; one that is always right is accepted and pays, a
 * useless one costs next to nothing, by a clock that passes alone move; its steps allocate nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROMPT = 60, TOKENS = 600, REQUESTS = 7 };

#include "tests/config_folder.h"
#include "tests/optimizer/timed_drafts.h"

/* ---- folders -------------------------------------------------------------------------------- */

static const char POOR[] = "gemma4_text-shared-assistant", WHOLE[] = "gemma4_unified-assistant",
                  RIGHT[] = "gemma4_text-assistant";

/* A model's folder and its assistant's. */
struct pair {
	char target[64], assistant[64];
};

static cJSON* entry_of(const cJSON* one, const char* name) {
	cJSON* entry;
	cJSON_ArrayForEach (entry, part(one, "tensors"))
		if (strcmp(part(entry, "name")->valuestring, name) == 0)
			return entry;
	fail_msg("%s is missing", name);
	return NULL;
}

static void put(cJSON* object, const char* field, double value) {
	cJSON_DeleteItemFromObjectCaseSensitive(object, field);
	assert_non_null(cJSON_AddNumberToObject(object, field, value));
}

static bool ends(const char* name, const char* ending) {
	const size_t n = strlen(name), m = strlen(ending);
	return n >= m && strcmp(name + n - m, ending) == 0;
}

/* Its blocks add nothing. */
static void silence(const cJSON* one) {
	cJSON* entry;
	cJSON_ArrayForEach (entry, part(one, "tensors")) {
		const char* name = part(entry, "name")->valuestring;
		if (ends(name, "o_proj.weight") || ends(name, "down_proj.weight") ||
		    ends(name, "per_layer_projection.weight"))
			put(entry, "scale", 0);
	}
}

/* A token follows from the one before it alone, and the assistant has the model's norm and head (tensors of
 * one name have one content) under the embedding as it is. */
static void make_right(cJSON* json) {
	cJSON *assistant = part(json, "assistant"), *config = part(assistant, "config"), *entry, *size;
	cJSON *text = part(config, "text_config"), *tensors = part(assistant, "tensors");
	const double dim = part(part(json, "config"), "hidden_size")->valuedouble;
	const double was = part(text, "hidden_size")->valuedouble;
	put(text, "hidden_size", dim);
	assert_non_null(cJSON_AddFalseToObject(config, "tie_word_embeddings"));
	cJSON_ArrayForEach (entry, tensors)
		cJSON_ArrayForEach (size, part(entry, "shape"))
			if (size->valuedouble == was)
				cJSON_SetNumberValue(size, dim);
	cJSON_AddItemToArray(tensors, cJSON_Duplicate(entry_of(json, "lm_head.weight"), true));
	silence(json);
	silence(assistant);
	assert_non_null(cJSON_AddTrueToObject(entry_of(assistant, "pre_projection.weight"), "identity"));
}

static struct pair write_pair(const char* name) {
	struct pair pair = {"/tmp/swiftlet-target-XXXXXX", "/tmp/swiftlet-assistant-XXXXXX"};
	char path[1200];
	struct error error = {""};
	snprintf(path, sizeof path, "%s/tests/core/golden/configs/%s.json", getenv("SWIFTLET_SOURCE"), name);
	cJSON* json = json_read(path, &error);
	if (!json)
		fail_msg("%s", error.message);
	if (name == RIGHT)
		make_right(json);
	assert_true(mkdtemp(pair.target) && mkdtemp(pair.assistant));
	write_folder(json, pair.target);
	write_folder(part(json, "assistant"), pair.assistant);
	cJSON_Delete(json);
	return pair;
}

static void drop_pair(const struct pair* pair) {
	drop_folder(pair->target);
	drop_folder(pair->assistant);
}

/* ---- what its passes are given -------------------------------------------------------------- */

enum { MOST_SEEN = 4096, MOST_DIM = 64 };

/* The first rows of drafts. */
static struct {
	int n, others; /* other rows */
	struct seen {
		int length; /* of the text that it reads */
		int32_t token;
		float state[MOST_DIM];
	} row[MOST_SEEN];
	const float* own; /* the states of the draft's rows */
} seen;

static bool run_seen(struct backend* b, const struct pass* pass, struct error* error) {
	const struct segment* s = &pass->segment[0];
	const size_t dim = (size_t)state_width(&b->weights->shape);
	assert_true(pass->n == 1 && s->reads && s->reads->backend != b && s->base == 0 && dim <= MOST_DIM);
	if (pass->parent[0] < 0) {
		struct seen* row = &seen.row[seen.n++ % MOST_SEEN];
		*row = (struct seen){.length = s->reads->committed, .token = pass->token[0]};
		memcpy(row->state, pass->state, dim * sizeof(float));
		seen.own = pass->normed_out;
	} else {
		assert_ptr_equal(pass->state, seen.own + (size_t)pass->parent[0] * dim);
		seen.others++;
	}
	return run_timed(b, pass, error);
}

/* Each began with the last token of the text and the state before it, bit for bit. */
static void check_seen(struct bench* b, const struct text* text) {
	enum { ALL = PROMPT + TOKENS };
	const struct weight_table* w = &b->engine->model->weights;
	const size_t dim = (size_t)w->shape.dim;
	struct error error = {""};
	int32_t token[ALL], path[ALL];
	float* states = calloc(ALL, dim * sizeof *states);
	const struct backend_options how = {.threads = 1, .isa = "auto", .context = ALL};
	struct backend* backend = cpu_open(w, &how, &error);
	struct cache* cache = backend->cache_open(backend, ALL, b->session->cache->type, &error);
	memcpy(token, b->prompt, sizeof b->prompt);
	memcpy(token + PROMPT, text->token, (size_t)text->n * sizeof *token);
	for (int at = 0, n; at < PROMPT + text->n; at += n) {
		n = least(MAX_ROWS, PROMPT + text->n - at);
		const struct segment segment = {.cache = cache, .base = at, .n = n};
		struct pass pass = pass_over(&segment, token + at, NULL, 2 * w->shape.n_blocks, NULL, NULL);
		pass.normed_out = states + (size_t)at * dim;
		for (int i = 0; i < n; i++)
			path[i] = i;
		if (!backend->run(backend, &pass, &error))
			fail_msg("%s", error.message);
		backend->commit(cache, path, n);
	}
	for (int i = 0; i < seen.n; i++) {
		const struct seen* row = &seen.row[i];
		assert_true(row->length >= PROMPT && row->length < PROMPT + text->n);
		assert_int_equal(row->token, token[row->length]);
		assert_memory_equal(row->state, states + (size_t)(row->length - 1) * dim, dim * sizeof(float));
	}
	backend->cache_close(cache);
	backend->close(backend);
	free(states);
}

/* ---- sessions ------------------------------------------------------------------------------- */

/* Bytes predict what the clock measures. */
static void price_assistant(swiftlet_engine* engine) {
	struct layer_bytes* bytes = &engine->mtp_cost.bytes.stored;
	const double scale = 0.25 * pass_bytes_all(&engine->cost.bytes) / pass_bytes_all(&engine->mtp_cost.bytes);
	*bytes = (struct layer_bytes){scale * bytes->attention, scale * bytes->mlp, scale * bytes->head};
	time_drafts(engine->mtp);
	engine->mtp->run = run_seen;
	seen.n = seen.others = 0;
}

/* which: 0 is plain decoding */
static void open_bench(struct bench* b, const struct pair* pair, unsigned which) {
	struct swiftlet_options options;
	set_options(&options, "cpu", which);
	options.drafting.method = which ? SWIFTLET_AUTO : SWIFTLET_VANILLA;
	if (which)
		snprintf(options.drafting.model, sizeof options.drafting.model, "%s", pair->assistant);
	open_engine(b, pair->target, &options);
	assert_true(!which == !b->engine->mtp && !b->engine->drafting);
	if (b->engine->mtp)
		price_assistant(b->engine);
	open_session(b, &options);
}

static struct text* generate_checked(struct bench* b, const struct swiftlet_request* request, int given) {
	struct text* text = generate(b, request, given);
	const struct mtp* m = &b->session->mtp;
	assert_true(!m->cache || (m->outside && m->cache->pending == 0 && m->cache->committed == 0));
	return text;
}

/* ---- the same text -------------------------------------------------------------------------- */

static void lossless(const char* name) {
	const struct pair pair = write_pair(name);
	struct bench plain, bench;
	swiftlet_grammar* grammar = open_grammar();
	int64_t accepted = 0, rows = 0;
	int checked = 0;
	for (int i = 0; i < REQUESTS; i++) {
		struct swiftlet_request request = request_of(i, grammar);
		request.max_tokens = TOKENS / 3;
		request.n_prompt = PROMPT;
		for (int given = 0; given < 2; given++) {
			open_bench(&plain, &pair, 0);
			request.prompt = plain.prompt;
			struct text* expected = generate_checked(&plain, &request, 0);
			close_bench(&plain);
			open_bench(&bench, &pair, given ? ~0u : 1u << SOURCE_mtp);
			request.prompt = bench.prompt;
			struct text* text = generate_checked(&bench, &request, given ? 12 : 0);
			same_text(expected, text);
			check_seen(&bench, text);
			checked += seen.n;
			accepted += text->figures.source[SOURCE_mtp].accepted;
			rows += text->figures.source[SOURCE_mtp].rows;
			if (!given)
				assert_int_equal(text->allocated, 0);
			struct text* again = generate_checked(&bench, &request, 0); /* what was kept of it is a prefix */
			same_text(expected, again);
			close_bench(&bench);
			free(expected);
			free(text);
			free(again);
		}
	}
	print_message("%s: %lld of %lld rows accepted, %d drafts began as they should\n", name,
	              (long long)accepted, (long long)rows, checked);
	assert_true(rows > 0 && checked > 0);
	swiftlet_grammar_free(grammar);
	drop_pair(&pair);
}

static void a_poor_one_changes_nothing(void** state) {
	(void)state;
	lossless(POOR);
	lossless(WHOLE);
}

static void a_right_one_changes_nothing(void** state) {
	(void)state;
	lossless(RIGHT);
}

/* ---- what it costs and brings --------------------------------------------------------------- */

static double seconds_of(const struct pair* pair, unsigned which, double temperature, struct text** out,
                         double* first) {
	struct bench b;
	open_bench(&b, pair, which);
	const struct swiftlet_request request = {.prompt = b.prompt,
	                                         .n_prompt = PROMPT,
	                                         .max_tokens = TOKENS,
	                                         .temperature = temperature,
	                                         .top_p = 1,
	                                         .seed = 5,
	                                         .ignore_eos = true};
	*out = generate_checked(&b, &request, 0);
	*first = (double)acceptance_first(session_acceptance(b.session), SOURCE_mtp);
	close_bench(&b);
	return (*out)->seconds;
}

/* Sampled drafts add the noise of the model's own position, or they would be right by chance alone. */
static void a_right_one_pays(void** state) {
	(void)state;
	const struct pair pair = write_pair(RIGHT);
	for (int sampled = 0; sampled < 2; sampled++) {
		struct text *plain, *drafted;
		double first;
		const double without = seconds_of(&pair, 0, 0.7 * sampled, &plain, &first);
		const double with = seconds_of(&pair, 1u << SOURCE_mtp, 0.7 * sampled, &drafted, &first);
		same_text(plain, drafted);
		const double rows = (double)drafted->figures.source[SOURCE_mtp].rows,
		             right = (double)drafted->figures.source[SOURCE_mtp].accepted;
		print_message("%s: first choices %.3f, %g of %g rows accepted, %.2f times as fast\n",
		              sampled ? "sampled" : "greedy", first, right, rows, without / with);
		assert_true(right > TOKENS / 2 && first > 0.95);
		assert_true(with < without / 2);
		free(plain);
		free(drafted);
	}
	drop_pair(&pair);
}

/* Design, promise 3: 2 % of plain time, and 8 steps to begin with. */
static void a_useless_one_rests(void** state) {
	(void)state;
	const struct pair pair = write_pair(POOR);
	struct text *plain, *drafted;
	double first;
	const double without = seconds_of(&pair, 0, 0, &plain, &first);
	const double with = seconds_of(&pair, 1u << SOURCE_mtp, 0, &drafted, &first);
	same_text(plain, drafted);
	print_message("useless: %.3f s, %.3f s without\n", with, without);
	if (with > 1.02 * without + 8e-3)
		fail_msg("%.3f s with the assistant, %.3f s without", with, without);
	free(plain);
	free(drafted);
	drop_pair(&pair);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_poor_one_changes_nothing),
	    cmocka_unit_test(a_right_one_changes_nothing),
	    cmocka_unit_test(a_right_one_pays),
	    cmocka_unit_test(a_useless_one_rests),
	};
	if (!getenv("SWIFTLET_SOURCE")) {
		printf("skipped: SWIFTLET_SOURCE is not set to the source tree\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
