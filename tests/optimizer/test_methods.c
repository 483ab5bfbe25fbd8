/* Every method: its text is plain decoding's, greedy and sampled, with every stop rule, with reuse of what
 * ran up to an exit and without, under penalties; reuse leaves the same bits; parts are checked; nothing is
 * allocated between rounds. Adapter, heads and probe are random ones: what they propose is bad, and verified.
 */
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

#include "core/decode/session_state.h"
#include "tests/count_allocations.h"
#include "tests/must_session.h"

enum { PROMPT = 300, TOKENS = 90, DIM = 64, HEADS = 4, KV = 2, HEAD_DIM = 16, VOCAB = 256 };

static const char MODEL[] =
    "synth:layers=6,dim=64,heads=4,kv-heads=2,ffn=128,vocab=256,dtype=f16,plant=0.45,seed=3";

static char adapter_path[64], heads_path[64], probe_path[64];

/* ---- auxiliary weights ----------------------------------------------------------------------------------
 */

struct auxiliary_tensor {
	const char* name;
	int rows, cols; /* rows 0: a vector */
};

/* A safetensors file of random numbers. */
static void write_auxiliary_file(char* path, const char* metadata, const struct auxiliary_tensor* t, int n) {
	char header[2048];
	size_t used = (size_t)snprintf(header, sizeof header, "{\"__metadata__\":{%s}", metadata), at = 0;
	for (int i = 0; i < n; i++) {
		const size_t bytes = sizeof(float) * (size_t)t[i].cols * (size_t)(t[i].rows ? t[i].rows : 1);
		char shape[32];
		snprintf(shape, sizeof shape, t[i].rows ? "%d,%d" : "%d", t[i].rows ? t[i].rows : t[i].cols,
		         t[i].cols);
		used += (size_t)snprintf(header + used, sizeof header - used,
		                         ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
		                         t[i].name, shape, at, at + bytes);
		at += bytes;
	}
	used += (size_t)snprintf(header + used, sizeof header - used, "}");
	strcpy(path, "/tmp/swiftlet-part-XXXXXX");
	FILE* file = fdopen(mkstemp(path), "wb");
	assert_non_null(file);
	const uint64_t length = used;
	fwrite(&length, sizeof length, 1, file); /* the tests' machines are little-endian */
	fwrite(header, 1, used, file);
	uint32_t random = 7;
	for (size_t i = 0; i < at / sizeof(float); i++) {
		random = random * 1664525u + 1013904223u;
		const float x = 0.4f * ((float)(random >> 8) / 16777216.0f - 0.5f);
		fwrite(&x, sizeof x, 1, file);
	}
	assert_int_equal(fclose(file), 0);
}

static void write_auxiliary_weights(void) {
	static const struct auxiliary_tensor adapter[] = {
	    {"kangaroo.norm_in.weight", 0, DIM},
	    {"kangaroo.attention.q.weight", HEADS * HEAD_DIM, DIM},
	    {"kangaroo.attention.k.weight", KV * HEAD_DIM, DIM},
	    {"kangaroo.attention.v.weight", KV * HEAD_DIM, DIM},
	    {"kangaroo.attention.o.weight", DIM, HEADS * HEAD_DIM},
	    {"kangaroo.norm_out.weight", 0, DIM},
	};
	static const struct auxiliary_tensor heads[] = {{"ppd.head.2.weight", DIM, DIM},
	                                                {"ppd.head.3.weight", DIM, DIM}};
	static const struct auxiliary_tensor probe[] = {{"probe.weight", 0, DIM}, {"probe.bias", 0, 1}};
	write_auxiliary_file(adapter_path, "\"exit_block\":\"2\"", adapter, 6);
	write_auxiliary_file(heads_path, "\"format\":\"swiftlet-heads-1\"", heads, 2);
	write_auxiliary_file(probe_path, "\"exit_block\":\"2\"", probe, 2);
}

/* ---- generating ----------------------------------------------------------------------------- */

struct text {
	int32_t token[TOKENS];
	int n, allocated;
	struct swiftlet_figures figures;
};

static struct swiftlet_options options_of(enum swiftlet_method method) {
	struct swiftlet_options o;
	options_default(&o);
	snprintf(o.engine.backend, sizeof o.engine.backend, "cpu");
	o.engine.threads = 2;
	o.draft_weights.bits = 0; /* wherever the processor's caches may be too small for the model */
	o.cache.context = PROMPT + TOKENS + 1;
	o.drafting.method = method;
	return o;
}

static struct engine* open_engine(struct model* model, bool parts) {
	struct swiftlet_options o = options_of(SWIFTLET_AUTO);
	if (parts) {
		snprintf(o.standalone.adapter, sizeof o.standalone.adapter, "%s", adapter_path);
		snprintf(o.standalone.heads, sizeof o.standalone.heads, "%s", heads_path);
	}
	return must_open_engine(model, &o);
}

static struct mask some_mask(void) {
	struct mask mask = {.word = {0}};
	for (int i = 3; i < 9; i += 2)
		mask_set(&mask, i, true);
	return mask;
}

static void start(struct session* s, const struct swiftlet_options* o, double temperature, bool penalised,
                  int n_prompt) {
	char message[512];
	static int32_t prompt[PROMPT];
	struct swiftlet_request request;
	for (int i = 0; i < PROMPT; i++)
		prompt[i] = (int32_t)((i % 23) * 37 % 251);
	if (o->drafting.method == SWIFTLET_SELF_SPEC) {
		const struct mask mask = some_mask();
		session_set_mask(s, &mask);
	}
	swiftlet_request_default(&request, o);
	request.prompt = prompt;
	request.n_prompt = n_prompt;
	request.max_tokens = TOKENS;
	request.temperature = temperature;
	request.top_p = temperature > 0 ? 0.95 : 1;
	request.seed = 5;
	request.repetition_penalty = penalised ? 1.2 : 1;
	if (!swiftlet_session_start(s, &request, message, sizeof message))
		fail_msg("%s: %s", method_name(o->drafting.method), message);
}

static void take_text(struct session* s, struct text* text) {
	char message[512];
	struct swiftlet_step step;
	text->n = text->allocated = 0;
	do {
#if ALLOCATIONS_COUNTED
		const int before = atomic_load(&allocations);
#endif
		assert_true(swiftlet_session_step(s, &step, message, sizeof message));
#if ALLOCATIONS_COUNTED
		text->allocated += atomic_load(&allocations) - before;
#endif
		for (int i = 0; i < step.n; i++)
			text->token[text->n++] = step.token[i].id;
	} while (step.stop == SWIFTLET_RUNNING);
	swiftlet_session_figures(s, &text->figures);
}

static struct text generate(struct engine* engine, const struct swiftlet_options* o, double temperature,
                            bool penalised) {
	char message[512];
	struct text text;
	struct session* s = swiftlet_session_open(engine, o, message, sizeof message);
	if (!s)
		fail_msg("%s", message);
	start(s, o, temperature, penalised, PROMPT);
	take_text(s, &text);
	/* another text on the same session: what was kept of the first must not be taken for its own */
	start(s, o, temperature, penalised, PROMPT - 10);
	take_text(s, &text);
	swiftlet_session_close(s);
	return text;
}

static void same(const char* name, const struct text* a, const struct text* b) {
	if (a->n != b->n || memcmp(a->token, b->token, sizeof *a->token * (size_t)a->n) != 0)
		fail_msg("%s: the text is not plain decoding's", name);
}

/* ---- losslessness --------------------------------------------------------------------------- */

static void every_method_is_lossless(void** state) {
	(void)state;
	char message[512];
	struct model* model = swiftlet_model_open(MODEL, NULL, message, sizeof message);
	struct engine* engine = open_engine(model, true);
	for (int way = 0; way < 3; way++) {
		const double temperature = way == 1 ? 0.9 : 0;
		struct swiftlet_options o = options_of(SWIFTLET_VANILLA);
		const struct text plain = generate(engine, &o, temperature, way == 2);
		for (int m = 0; m < SWIFTLET_METHODS; m++) {
			o = options_of((enum swiftlet_method)m);
			const struct text text = generate(engine, &o, temperature, way == 2);
			same(method_name((enum swiftlet_method)m), &plain, &text);
			if (m == SWIFTLET_VANILLA || options_plan(&o))
				continue;
			assert_true(text.figures.draft_steps > 0 || m == SWIFTLET_NGRAM);
			assert_true(text.figures.compression_ratio >= 1);
			for (int w = 1; w < SWIFTLET_CTAR; w++)
				assert_true(text.figures.ctar[w] <= text.figures.ctar[w - 1]);
		}
	}
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

static void every_stop_rule_is_lossless(void** state) {
	(void)state;
	static const enum swiftlet_method some[] = {SWIFTLET_NGRAM, SWIFTLET_UNIFORM, SWIFTLET_LAYERSKIP,
	                                            SWIFTLET_KANGAROO};
	char message[512];
	struct model* model = swiftlet_model_open(MODEL, NULL, message, sizeof message);
	struct engine* engine = open_engine(model, true);
	struct swiftlet_options o = options_of(SWIFTLET_VANILLA);
	const struct text plain = generate(engine, &o, 0, false);
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		for (int rule = STOP_FIXED; rule <= STOP_GAIN; rule++)
			for (int reuse = 0; reuse < 2; reuse++) {
				o = options_of(some[i]);
				o.standalone.stop_rule = (enum stop_rule)rule;
				o.standalone.reuse = reuse != 0;
				const struct text text = generate(engine, &o, 0, false);
				same(method_name(some[i]), &plain, &text);
			}
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

static struct engine* open_with(struct model* model, const char* adapter, const char* heads) {
	struct swiftlet_options o = options_of(SWIFTLET_AUTO);
	snprintf(o.standalone.adapter, sizeof o.standalone.adapter, "%s", adapter);
	snprintf(o.standalone.heads, sizeof o.standalone.heads, "%s", heads);
	return must_open_engine(model, &o);
}

/* Heads draft for the methods with an exit; exits by cost are those that have one. */
static void heads_draft(void** state) {
	(void)state;
	char message[512];
	struct model* model = swiftlet_model_open(MODEL, NULL, message, sizeof message);
	struct engine* engine = open_with(model, "", heads_path);
	for (int way = 0; way < 3; way++) {
		struct swiftlet_options o = options_of(SWIFTLET_VANILLA);
		const struct text plain = generate(engine, &o, way, false);
		for (int block = 0; block <= 2; block += 2) {
			o = options_of(block ? SWIFTLET_LAYERSKIP : SWIFTLET_PPD);
			o.standalone.exit_block = block;
			o.standalone.rejection = way == 2;
			snprintf(o.standalone.heads, sizeof o.standalone.heads, "%s", heads_path);
			const struct text text = generate(engine, &o, way, false);
			if (way < 2)
				same("heads", &plain, &text);
			assert_true(text.figures.exit_block == 2 || text.figures.exit_block == 3);
		}
	}
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

/* Under rejection greedy texts stay plain decoding's; sampled ones are others, and end. */
static void rejection_runs(void** state) {
	(void)state;
	static const enum swiftlet_method some[] = {SWIFTLET_LOOKAHEAD, SWIFTLET_RANDOM, SWIFTLET_LAYERSKIP,
	                                            SWIFTLET_KANGAROO, SWIFTLET_PPD};
	char message[512];
	struct model* model = swiftlet_model_open(MODEL, NULL, message, sizeof message);
	struct engine* engine = open_engine(model, true);
	struct swiftlet_options o = options_of(SWIFTLET_VANILLA);
	const struct text plain = generate(engine, &o, 0, false);
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		o = options_of(some[i]);
		o.standalone.rejection = true;
		const struct text greedy = generate(engine, &o, 0, false);
		same(method_name(some[i]), &plain, &greedy);
		const struct text a = generate(engine, &o, 1, false), b = generate(engine, &o, 1, false);
		same(method_name(some[i]), &a, &b); /* one seed, one text */
		assert_true(a.n > 1);
	}
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

/* ---- reuse ---------------------------------------------------------------------------------- */

/* A tree whose rows ran up to block 3, some as drafts and the rest later, then on from there: the same logits
 * as one pass, to the bit. */
static void reuse_leaves_the_same_bits(void** state) {
	(void)state;
	enum { ROWS = 6, EXIT = 6, DRAFTED = 3 };
	static const int32_t parent[ROWS] = {-1, 0, 1, 0, 1, 2}, token[ROWS] = {9, 40, 7, 41, 8, 100};
	/* rows 0, 1, 2 are drafted; 3, 4, 5 follow */
	static const int32_t pending[ROWS] = {0, 1, 2, 3, 4, 5};
	static float whole[ROWS * VOCAB], parts[ROWS * VOCAB], none[VOCAB];
	char message[512];
	struct error error;
	struct model* model = swiftlet_model_open(MODEL, NULL, message, sizeof message);
	struct engine* engine = open_engine(model, false);
	struct backend* backend = engine->backend;
	struct cache* cache = backend->cache_open(backend, 64, DTYPE_F16, &error);
	struct round* round = calloc(1, sizeof *round);
	struct tree tree;
	struct pass pass;
	assert_non_null(cache);
	assert_non_null(round);
	tree_start(&tree, token[0]);
	for (int i = 1; i < ROWS; i++)
		assert_int_equal(tree_add(&tree, parent[i], token[i], 0, 0, 0.5f), i);
	round_start(round, cache, NULL);
	for (int i = 0; i < ROWS; i++)
		round->out[i].logits = whole + i * VOCAB;
	round_verify_pass(round, &tree, WANT_LOGITS, &pass);
	assert_true(backend->run(backend, &pass, &error));
	backend->discard(cache);
	for (int i = 0; i < ROWS; i++) { /* one by one up to the exit, then the rest of them at once */
		const int n = i < DRAFTED ? 1 : ROWS - DRAFTED;
		const struct segment segment = {.cache = cache, .n = n};
		uint8_t want = WANT_TOKEN;
		struct result out = {.logits = none};
		const struct pass draft = {.kind = PASS_EXACT,
		                           .n = n,
		                           .n_segments = 1,
		                           .segment = &segment,
		                           .token = token + i,
		                           .parent = parent + i,
		                           .last = EXIT,
		                           .head = n == 1,
		                           .tap = -1,
		                           .want = &want,
		                           .out = &out};
		assert_true(backend->run(backend, &draft, &error));
		i += n - 1;
	}
	assert_true(backend->rewind(cache, EXIT));
	for (int i = 0; i < ROWS; i++)
		round->out[i].logits = parts + i * VOCAB;
	round_rest_pass(round, &tree, pending, EXIT, WANT_LOGITS, &pass);
	assert_true(backend->run(backend, &pass, &error));
	assert_memory_equal(whole, parts, sizeof whole);
	round_judge(round);
	round_commit(round);
	assert_int_equal(cache->committed, round->verdict.accepted + 1);
	free(round);
	backend->cache_close(cache);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

/* ---- bad input ------------------------------------------------------------------------------ */

static void refused(struct engine* engine, const struct swiftlet_options* o, const char* expected) {
	char message[512] = "";
	assert_null(swiftlet_session_open(engine, o, message, sizeof message));
	if (!strstr(message, expected))
		fail_msg("\"%s\" does not say \"%s\"", message, expected);
}

static void what_is_missing_is_said(void** state) {
	(void)state;
	char message[512] = "";
	struct error error;
	struct model* model = swiftlet_model_open(MODEL, NULL, message, sizeof message);
	struct engine* bare = open_engine(model, false);
	struct engine* engine = open_engine(model, true);
	struct swiftlet_options o = options_of(SWIFTLET_KANGAROO);
	refused(bare, &o, "tools/train/kangaroo.py");
	o.standalone.exit_block = 3;
	refused(engine, &o, "was trained for block 2");
	o = options_of(SWIFTLET_LAYERSKIP);
	o.standalone.exit_block = 6;
	refused(bare, &o, "expected 1 to 5");
	o = options_of(SWIFTLET_PPD);
	o.standalone.exit_block = 5;
	snprintf(o.standalone.heads, sizeof o.standalone.heads, "%s", heads_path);
	refused(engine, &o, "no head for --exit-block 5");
	o = options_of(SWIFTLET_AUTO);
	o.standalone.rejection = true;
	refused(bare, &o, "one drafter");
	assert_int_equal(swiftlet_options_set(&o, "children", "11", message, sizeof message), -1);
	assert_int_equal(swiftlet_options_set(&o, "method", "swifter", message, sizeof message), -1);
	assert_non_null(strstr(message, "kangaroo"));
	/* self-spec without a mask fails when a text begins */
	o = options_of(SWIFTLET_SELF_SPEC);
	const int32_t prompt[] = {1, 2, 3};
	struct swiftlet_request request;
	struct session* s = swiftlet_session_open(bare, &o, message, sizeof message);
	swiftlet_request_default(&request, &o);
	request.prompt = prompt;
	request.n_prompt = 3;
	assert_false(swiftlet_session_start(s, &request, message, sizeof message));
	assert_non_null(strstr(message, "--save-mask"));
	swiftlet_session_close(s);
	/* one part taken for another, or for another model's */
	struct adapter adapter;
	assert_false(adapter_open(&adapter, heads_path, model, &error));
	assert_non_null(strstr(error.message, "kangaroo.norm_in.weight"));
	adapter_close(&adapter);
	struct heads heads;
	assert_false(heads_open(&heads, probe_path, model, &error));
	assert_non_null(strstr(error.message, "ppd.head.1.weight"));
	heads_close(&heads);
	struct model* other = swiftlet_model_open("synth:layers=6,dim=128,heads=4,kv-heads=2,ffn=128,vocab=256",
	                                          NULL, message, sizeof message);
	assert_false(adapter_open(&adapter, adapter_path, other, &error));
	assert_non_null(strstr(error.message, "shape"));
	adapter_close(&adapter);
	assert_false(heads_open(&heads, heads_path, other, &error));
	assert_non_null(strstr(error.message, "expected (128, 128)"));
	heads_close(&heads);
	struct probe_weights probe;
	assert_false(probe_open(&probe, probe_path, other, &error));
	probe_close(&probe);
	swiftlet_model_close(other);
	swiftlet_engine_close(engine);
	swiftlet_engine_close(bare);
	swiftlet_model_close(model);
}

/* ---- memory that is short -------------------------------------------------------------------- */

/* Pages of 32 tokens, in f16: for one session whole, and two more. */
enum { PAGES = 24, PAGE_BYTES = 6 * 2 * KV * HEAD_DIM * 2 * 32 };

/* All but so many pages are two others'. */
static void leave_pages(struct engine* engine, int left, struct cache* other[2]) {
	struct error error;
	struct backend* b = engine->backend;
	for (int i = 0; i < 2; i++) {
		other[i] = b->cache_open(b, PROMPT + TOKENS + 1, DTYPE_F16, &error);
		assert_non_null(other[i]);
		const int rows = b->room(other[i]) - 32 * left;
		assert_true(b->reserve(other[i], rows < MAX_ROWS ? rows : MAX_ROWS));
	}
	assert_int_equal(b->room(other[0]), 32 * left);
}

/* Whether a pass of the step found that there is no memory for it; none fails that was promised some. */
static bool step_is_short(struct session* s) {
	struct session_work work;
	struct error error;
	session_begin_step(s);
	while (session_next(s, &work)) {
		const int room = session_room(s);
		if (!session_reserve(s, &work))
			return true;
		if (!pass_appends(&work.pass))
			assert_int_equal(session_room(s), room);
		if (!session_run(s, &work, &error))
			fail_msg("%s: %s", method_name(s->options.drafting.method), error.message);
		if (session_absorb(s, &work, work.pass.n, 1))
			return false;
	}
	return false;
}

static void a_pass_runs_in_what_was_made_sure_of(void** state) {
	(void)state;
	char message[512];
	struct model* model = swiftlet_model_open(MODEL, NULL, message, sizeof message);
	struct swiftlet_options o = options_of(SWIFTLET_AUTO);
	snprintf(o.standalone.heads, sizeof o.standalone.heads, "%s", heads_path);
	o.cache.memory = PAGES * PAGE_BYTES;
	int n_short = 0;
	for (int m = SWIFTLET_NGRAM; m < SWIFTLET_METHODS; m++)
		for (int left = 0; left < 4; left++) {
			struct engine* engine = swiftlet_engine_open(model, &o, message, sizeof message);
			struct swiftlet_options own = options_of((enum swiftlet_method)m);
			struct session* s = engine ? swiftlet_session_open(engine, &own, message, sizeof message) : NULL;
			if (!engine)
				fail_msg("%s", message);
			if (s) { /* not one that wants an adapter */
				struct swiftlet_step step = {.stop = SWIFTLET_RUNNING};
				start(s, &own, 0, false, PROMPT);
				while (session_prefill_left(s) > 0)
					assert_false(step_is_short(s));
				struct cache* other[2];
				leave_pages(engine, left, other);
				bool is_short = false;
				while (step.stop == SWIFTLET_RUNNING && !is_short) {
					is_short = step_is_short(s);
					session_output(s, &step);
				}
				n_short += is_short;
				for (int i = 0; i < 2; i++)
					engine->backend->cache_close(other[i]);
			}
			swiftlet_session_close(s);
			swiftlet_engine_close(engine);
		}
	assert_true(n_short > 0);
	swiftlet_model_close(model);
}

/* ---- the decode path ------------------------------------------------------------------------ */

static void nothing_is_allocated(void** state) {
	(void)state;
#if ALLOCATIONS_COUNTED
	char message[512];
	struct model* model = swiftlet_model_open(MODEL, NULL, message, sizeof message);
	struct engine* engine = open_engine(model, true);
	for (int m = SWIFTLET_NGRAM; m < SWIFTLET_METHODS; m++) {
		const struct swiftlet_options o = options_of((enum swiftlet_method)m);
		const struct text text = generate(engine, &o, 0.7, false);
		if (text.allocated > 0)
			fail_msg("%s: %d allocations", method_name((enum swiftlet_method)m), text.allocated);
	}
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
#else
	skip();
#endif
}

static int remove_auxiliary_weights(void** state) {
	(void)state;
	return remove(adapter_path) | remove(heads_path) | remove(probe_path);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_method_is_lossless),
	    cmocka_unit_test(every_stop_rule_is_lossless),
	    cmocka_unit_test(heads_draft),
	    cmocka_unit_test(rejection_runs),
	    cmocka_unit_test(reuse_leaves_the_same_bits),
	    cmocka_unit_test(what_is_missing_is_said),
	    cmocka_unit_test(nothing_is_allocated),
	    cmocka_unit_test(a_pass_runs_in_what_was_made_sure_of),
	};
	write_auxiliary_weights();
	return cmocka_run_group_tests(tests, NULL, remove_auxiliary_weights);
}
