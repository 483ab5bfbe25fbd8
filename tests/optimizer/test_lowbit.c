/* Sessions that draft with quantized draft weights: the text is plain decoding's, greedy and sampled,
 * whatever else is left out, however the search goes; drafts are accepted, and as many as the draft weights
 * predict. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/decode/session.h"
#include "core/decode/session_state.h"
#include "tests/must_session.h"

enum { PROMPT = 24, TOKENS = 160 };

static const char MODEL[] =
    "synth:layers=6,dim=256,heads=4,kv-heads=2,ffn=512,vocab=1024,dtype=f16,plant=0.45";

struct text {
	int32_t token[TOKENS];
	int n;
	struct swiftlet_figures figures;
};

static struct engine* engine_of(struct model* model, int bits, const char* isa, int threads) {
	struct swiftlet_options o;
	options_default(&o);
	o.draft_weights.bits = bits;
	o.engine.threads = threads;
	snprintf(o.engine.backend, sizeof o.engine.backend, "cpu");
	snprintf(o.engine.isa, sizeof o.engine.isa, "%s", isa);
	o.cache.context = PROMPT + TOKENS;
	return must_open_engine(model, &o);
}

static bool keep(void* user, const struct swiftlet_step* step) {
	struct text* text = user;
	for (int i = 0; i < step->n; i++)
		text->token[text->n++] = step->token[i].id;
	return true;
}

static struct swiftlet_options drafting(void) {
	struct swiftlet_options o;
	options_default(&o);
	o.cache.context = PROMPT + TOKENS;
	o.drafting.when = SWIFTLET_DRAFT_ALWAYS;
	o.learning.search = false;
	o.draft_weights.bits = 4;
	o.drafting.max_draft = 3;
	o.drafting.max_tree = 8; /* no decision by the clock: figures repeat */
	return o;
}

static struct swiftlet_request request_of(const struct swiftlet_options* o, double temperature, uint64_t seed,
                                          int32_t prompt[PROMPT]) {
	struct swiftlet_request request;
	for (int i = 0; i < PROMPT; i++)
		prompt[i] = (int32_t)((seed * 131 + (uint64_t)i * 37) % 1024);
	swiftlet_request_default(&request, o);
	request.prompt = prompt;
	request.n_prompt = PROMPT;
	request.max_tokens = TOKENS;
	request.temperature = temperature;
	request.top_p = 0.95;
	request.seed = seed;
	return request;
}

static struct text generate(struct engine* engine, const struct swiftlet_options* o, const struct mask* skip,
                            double temperature, uint64_t seed) {
	char message[512];
	int32_t prompt[PROMPT];
	struct text text = {.n = 0};
	struct session* s = swiftlet_session_open(engine, o, message, sizeof message);
	if (!s)
		fail_msg("%s", message);
	if (skip)
		session_set_mask(s, skip);
	const struct swiftlet_request request = request_of(o, temperature, seed, prompt);
	if (!swiftlet_session_generate(s, &request, keep, &text, &text.figures, message, sizeof message))
		fail_msg("%s", message);
	swiftlet_session_close(s);
	return text;
}

static void same(const struct text* a, const struct text* b) {
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->token, b->token, sizeof *a->token * (size_t)a->n);
}

static void output_is_plain_decodings(void** state) {
	struct model* model = *state;
	const struct mask nothing = {.word = {0}};
	for (int bits = 4; bits <= 8; bits += 4) {
		struct engine* engine = engine_of(model, bits, "auto", 2);
		for (uint64_t seed = 0; seed < 3; seed++)
			for (int sampled = 0; sampled < 2; sampled++) {
				struct swiftlet_options o = drafting(), vanilla = o;
				vanilla.drafting.method = SWIFTLET_VANILLA;
				const double t = sampled ? 0.8 : 0;
				const struct text plain = generate(engine, &vanilla, NULL, t, seed);
				assert_int_equal(plain.figures.draft_steps, 0);
				const struct text quantized = generate(engine, &o, &nothing, t, seed);
				const struct text both = generate(engine, &o, &model->planted[0], t, seed);
				o.learning.search = true;
				o.learning.budget = INFINITY;
				o.learning.skip_ratio = bits == 8 ? 0.45 : 0; /* these are no channels to search levels of */
				const struct text searched = generate(engine, &o, NULL, t, seed);
				same(&plain, &quantized);
				same(&plain, &both);
				same(&plain, &searched);
				assert_true(quantized.figures.draft_steps > 0 && both.figures.draft_steps > 0);
				if (!sampled)
					assert_true(quantized.figures.alpha > 0.6);
				assert_true(searched.figures.optimize_steps > 0);
			}
		swiftlet_engine_close(engine);
	}
}

/* Whatever is skipped, the text is plain decoding's, and the figures show what ran quantized. */
static void any_mask_will_do(void** state) {
	struct model* model = *state;
	struct engine* engine = engine_of(model, 4, "auto", 2);
	for (uint64_t seed = 0; seed < 8; seed++) {
		struct swiftlet_options o = drafting(), vanilla = o;
		vanilla.drafting.method = SWIFTLET_VANILLA;
		const double t = seed % 2 ? 0.8 : 0;
		o.drafting.when = seed % 4 < 2 ? SWIFTLET_DRAFT_ALWAYS : SWIFTLET_DRAFT_AUTO;
		o.draft_weights.bits = seed == 7 ? 0 : 4;
		struct mask mask = {.word = {0}};
		int quantized = 0;
		for (int s = 0; s < 12; s++) {
			const uint64_t what = (seed * 2654435761u >> (2 * s)) % 3;
			if (what == 0 && s >= 2 && s < 10)
				mask_set(&mask, s, true);
			else
				quantized++;
		}
		const struct text plain = generate(engine, &vanilla, NULL, t, seed);
		const struct text mixed = generate(engine, &o, &mask, t, seed);
		same(&plain, &mixed);
		const struct swiftlet_figures* f = &mixed.figures;
		assert_int_equal(f->n_attention + f->n_mlp, mask_count(&mask));
		assert_int_equal(f->n_quantized_attention + f->n_quantized_mlp, seed == 7 ? 0 : quantized);
		assert_int_equal(f->quantized_head, seed != 7);
		for (int i = 0; i < f->n_quantized_attention; i++)
			assert_false(mask_has(&mask, 2 * f->quantized_attention[i]));
		if (o.drafting.when == SWIFTLET_DRAFT_ALWAYS)
			assert_true(f->draft_steps > 0);
	}
	swiftlet_engine_close(engine);
}

/* The engine has draft weights, the session does not want them: it drafts as it did. */
static void sessions_choose(void** state) {
	struct model* model = *state;
	struct engine *with = engine_of(model, 4, "auto", 2), *without = engine_of(model, 0, "auto", 2);
	struct swiftlet_options o = drafting();
	const struct text quantized = generate(with, &o, &model->planted[0], 0, 1);
	o.draft_weights.bits = 0;
	const struct text stored = generate(with, &o, &model->planted[0], 0, 1);
	const struct text before = generate(without, &o, &model->planted[0], 0, 1);
	same(&stored, &before);
	same(&stored, &quantized);
	assert_int_equal(stored.figures.draft_steps, before.figures.draft_steps);
	assert_int_equal(stored.figures.accepted, before.figures.accepted);
	assert_true(quantized.figures.quantized_head && quantized.figures.n_quantized_mlp > 0);
	assert_true(!stored.figures.quantized_head && stored.figures.n_quantized_mlp == 0);
	assert_true(strstr(swiftlet_engine_note(with), "4 bits by input channel"));
	assert_string_equal(swiftlet_engine_note(without), "");
	swiftlet_engine_close(with);
	swiftlet_engine_close(without);
}

/* ---- joining -------------------------------------------------------------------------------- */

struct joining {
	struct text text; /* first: what `keep` takes */
	struct engine* engine;
	int at, helped;
};

static void open_making(struct engine* engine) {
	struct error error;
	const struct draft_weights_request wish = {.format = {.bits = 4}};
	assert_null(engine_draft_weights(engine));
	assert_true(draft_weights_memory_open(&engine->draft_weights, engine->model, &wish, &error));
	assert_true(engine->backend->use_draft_weights(engine->backend, &engine->draft_weights.table, &error));
	engine->making =
	    draft_weights_job_open(&engine->draft_weights.table, engine->draft_weights.data, 2, &error);
	assert_non_null(engine->making);
}

/* From some token on the draft weights are made, by two threads; the next round finds them. */
static bool keep_and_make(void* user, const struct swiftlet_step* step) {
	struct joining* j = user;
	const bool more = keep(&j->text, step);
	if (j->engine->making || j->text.n < j->at)
		return more;
	open_making(j->engine);
	while (draft_weights_job_run(j->engine->making, 0.0001) < 1)
		;
	return more;
}

static void a_copy_joins_in_mid_text(void** state) {
	struct model* model = *state;
	char message[512];
	for (int sampled = 0; sampled < 2; sampled++)
		for (int at = 1; at < TOKENS; at += 50) {
			struct engine* engine = engine_of(model, 0, "auto", 2);
			struct swiftlet_options o = drafting(), vanilla = o;
			vanilla.drafting.method = SWIFTLET_VANILLA;
			o.drafting.when = sampled ? SWIFTLET_DRAFT_AUTO : SWIFTLET_DRAFT_ALWAYS;
			o.draft_weights.bits = -1;
			const double t = sampled ? 0.8 : 0;
			const struct text plain = generate(engine, &vanilla, NULL, t, 7);
			struct joining j = {.engine = engine, .at = at};
			int32_t prompt[PROMPT];
			struct swiftlet_request request = request_of(&o, t, 7, prompt);
			struct session* s = must_open_session(engine, &o);
			assert_true(swiftlet_session_generate(s, &request, keep_and_make, &j, &j.text.figures, message,
			                                      sizeof message));
			same(&plain, &j.text);
			if (!sampled)
				assert_true(engine_draft_weights(engine) == &engine->draft_weights.table);
			assert_true(strstr(swiftlet_engine_note(engine), "made in"));
			swiftlet_session_close(s);
			swiftlet_engine_close(engine);
		}
}

/* Four sequences together take hardly longer than one. */
static void a_batch_of_cheap_rows_makes_none(void** state) {
	struct model* model = *state;
	char message[512];
	struct engine* engine = engine_of(model, 0, "auto", 2);
	struct swiftlet_options o = drafting();
	o.draft_weights.bits = -1;
	assert_int_equal(swiftlet_options_set(&o, "opt-budget", "inf", message, sizeof message), 1);
	struct session* s = must_open_session(engine, &o);
	open_making(engine);
	for (int i = 0; i < 6; i++)
		cost_see_full(&engine->cost, i < 3 ? 1 : 4, i < 3 ? 0.010 : 0.0105, 0);
	session_set_batch(s, &(struct batch){.sequences = 3});
	plan_make_draft_weights(s);
	assert_true(draft_weights_job_share(engine->making) == 0);
	session_set_batch(s, &(struct batch){.sequences = 0});
	plan_make_draft_weights(s);
	assert_true(draft_weights_job_share(engine->making) > 0);
	swiftlet_session_close(s);
	swiftlet_engine_close(engine);
}

/* What idle time has made so far shows what all of it takes: over 100 plain steps here, which fifty tokens do
 * not pay for. */
static void idle_time_shows_what_making_takes(void** state) {
	struct model* model = *state;
	struct engine* engine = engine_of(model, 0, "auto", 2);
	struct swiftlet_options o = drafting();
	o.draft_weights.bits = -1;
	struct session* s = must_open_session(engine, &o);
	open_making(engine);
	const double made = draft_weights_job_run(engine->making, 0);
	assert_true(made > 0 && made < 1);
	engine->draft_weights_seconds = 1; /* a slow machine */
	for (int i = 0; i < 50; i++)
		budget_round(s->budget, 1, 1);
	s->end = s->n_text + 10000;
	cost_see_full(&engine->cost, 1, 0.010, 0);
	plan_make_draft_weights(s);
	assert_true(draft_weights_job_share(engine->making) == made);
	assert_true(fabs(engine->draft_weights_steps * made - 100) < 1e-6);
	swiftlet_session_close(s);
	swiftlet_engine_close(engine);
}

/* Seconds that each look at the clock takes */
static double pause_of_clock, time_of_clock;
static double paused_clock(void* user) {
	(void)user;
	return time_of_clock += pause_of_clock;
}

/* A first slice of making that takes a thousand plain steps is followed by a second one, which takes one. */
static void a_slow_first_slice_is_no_verdict(void** state) {
	struct model* model = *state;
	struct engine* engine = engine_of(model, 0, "auto", 2);
	struct swiftlet_options o = drafting();
	o.draft_weights.bits = -1;
	o.clock = paused_clock;
	struct session* s = must_open_session(engine, &o);
	open_making(engine);
	const double plain = 1e-6; /* slices of one part a thread */
	cost_see_full(&engine->cost, 1, plain, 0);
	s->end = s->n_text + 10000;
	budget_round(s->budget, 1, 1);
	pause_of_clock = 1000 * plain;
	plan_make_draft_weights(s);
	const double first = draft_weights_job_share(engine->making);
	assert_true(first > 0 && first < 0.5);
	assert_true(fabs(engine->draft_weights_steps * first - 1000) < 1e-6);
	pause_of_clock = plain;
	for (int i = 1; i < 16; i++) {
		plan_make_draft_weights(s);
		assert_true(draft_weights_job_share(engine->making) == first);
		budget_round(s->budget, 1, 1);
	}
	plan_make_draft_weights(s);
	const double second = draft_weights_job_share(engine->making);
	assert_true(second > first);
	assert_true(fabs(engine->draft_weights_steps * (second - first) - 1) < 1e-6);
	swiftlet_session_close(s);
	swiftlet_engine_close(engine);
}

/* A model that lies in the processor's cache gets none unless it is asked for, and nothing is said of it: one
 * of 176 KiB, where the kernel reports the sizes of caches. */
static void small_models_get_none(void** state) {
	(void)state;
	struct error error = {""};
	if (access("/sys/devices/system/cpu/cpu0/cache/index2/size", R_OK) != 0)
		skip();
	struct model* model =
	    model_open("synth:layers=4,dim=64,heads=2,ffn=32,vocab=1024,dtype=f16", NULL, &error);
	assert_non_null(model);
	struct engine* engine = engine_of(model, -1, "auto", 2);
	assert_null(engine_draft_weights(engine));
	assert_null(engine->making);
	assert_string_equal(swiftlet_engine_note(engine), "");
	swiftlet_engine_close(engine);
	engine = engine_of(model, 4, "auto", 2);
	assert_non_null(engine_draft_weights(engine));
	swiftlet_engine_close(engine);
	model_close(model);
}

/* Drafts too are repeatable: neither threads nor chance is in them. */
static void drafts_repeat(void** state) {
	struct model* model = *state;
	const struct mask nothing = {.word = {0}};
	const struct swiftlet_options o = drafting();
	struct text first = {.n = 0};
	for (int threads = 1; threads <= 3; threads++) {
		struct engine* engine = engine_of(model, 4, "auto", threads);
		const struct text text = generate(engine, &o, &nothing, 0, 2);
		swiftlet_engine_close(engine);
		if (threads == 1)
			first = text;
		same(&first, &text);
		assert_int_equal(first.figures.draft_steps, text.figures.draft_steps);
		assert_int_equal(first.figures.accepted, text.figures.accepted);
	}
}

/* Weights in 4 bits gain nothing from 8; by input channel they gain from what is left out. */
static void small_weights_draft_from_channels(void** state) {
	(void)state;
	struct error error = {""};
	struct model* model =
	    model_open("synth:layers=4,dim=256,heads=4,kv-heads=4,ffn=512,vocab=1024,dtype=q4_k", NULL, &error);
	const struct swiftlet_options o = drafting();
	const struct mask nothing = {.word = {0}};
	struct text text[2];
	for (int bits = 8; bits >= 4; bits -= 4) {
		struct engine* engine = engine_of(model, bits, "auto", 1);
		const char* note = bits == 8 ? "as small already" : "4 bits by input channel";
		assert_true(strstr(swiftlet_engine_note(engine), note));
		text[bits / 8] = generate(engine, &o, &nothing, 0, 1);
		assert_int_equal(text[bits / 8].figures.draft_steps > 0, bits == 4);
		assert_int_equal(text[bits / 8].n, TOKENS);
		swiftlet_engine_close(engine);
	}
	same(&text[0], &text[1]);
	model_close(model);
}

/* A draft pass takes retrieved candidates along where rows share the weights that they read: by input channel
 * each row reads others, and n rows cost n steps. */
static void rows_by_channel_share_nothing(void** state) {
	(void)state;
	struct error error = {""};
	static const char* const shape[2] = {
	    "synth:layers=4,dim=256,heads=4,kv-heads=4,ffn=512,vocab=1024,dtype=q4_k",
	    "synth:layers=4,dim=256,heads=4,kv-heads=4,ffn=512,vocab=1024,dtype=f16"};
	for (int i = 0; i < 4; i++) {
		struct model* model = model_open(shape[i / 2], NULL, &error);
		assert_non_null(model);
		struct engine* engine = engine_of(model, i % 2 ? 4 : 0, "auto", 1);
		struct swiftlet_options o = drafting();
		o.drafting.when = SWIFTLET_DRAFT_AUTO; /* the planner plans */
		char message[512];
		int32_t prompt[PROMPT];
		struct text text = {.n = 0};
		struct session* s = must_open_session(engine, &o);
		const struct swiftlet_request request = request_of(&o, 0, 1, prompt);
		assert_true(
		    swiftlet_session_generate(s, &request, keep, &text, &text.figures, message, sizeof message));
		assert_true(s->draft_weights ? s->draft_weights->format.columns : i % 2 == 0);
		assert_int_equal(s->planner.costs.cascade[SOURCE_mask], i % 2 == 0);
		swiftlet_session_close(s);
		swiftlet_engine_close(engine);
		model_close(model);
	}
}

static void options_are_checked(void** state) {
	(void)state;
	struct swiftlet_options o;
	char message[300], longest[600];
	options_default(&o);
	assert_int_equal(o.draft_weights.bits, -1);
	assert_int_equal(swiftlet_options_set(&o, "draft-bits", "8", message, sizeof message), 1);
	assert_int_equal(o.draft_weights.bits, 8);
	assert_int_equal(swiftlet_options_set(&o, "draft-bits", "off", message, sizeof message), 1);
	assert_int_equal(o.draft_weights.bits, 0);
	assert_int_equal(swiftlet_options_set(&o, "draft-bits", "auto", message, sizeof message), 1);
	assert_int_equal(o.draft_weights.bits, -1);
	static const char* const bad_bits[] = {"5", "3", "0", "", "4.0", "-4", "on"};
	for (size_t i = 0; i < sizeof bad_bits / sizeof *bad_bits; i++)
		assert_int_equal(swiftlet_options_set(&o, "draft-bits", bad_bits[i], message, sizeof message), -1);
	static const struct {
		const char* text;
		double bytes;
	} sizes[] = {{"1", 1}, {"800M", 800 * 0x1p20}, {"1.5G", 1.5 * 0x1p30}, {"2K", 2048}, {"1T", 0x1p40}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		assert_int_equal(swiftlet_options_set(&o, "draft-memory", sizes[i].text, message, sizeof message), 1);
		assert_true(o.draft_weights.memory == sizes[i].bytes);
	}
	static const char* const bad_sizes[] = {"", "0", "-1G", "G", "1GB", "1 G", "nan", "inf", "1e300", "1m"};
	for (size_t i = 0; i < sizeof bad_sizes / sizeof *bad_sizes; i++)
		assert_int_equal(swiftlet_options_set(&o, "draft-memory", bad_sizes[i], message, sizeof message), -1);
	memset(longest, 'x', sizeof longest);
	longest[sizeof longest - 1] = 0;
	assert_int_equal(swiftlet_options_set(&o, "adapter", longest, message, sizeof message), -1);
	assert_int_equal(swiftlet_options_set(&o, "adapter", "", message, sizeof message), -1);
	assert_int_equal(swiftlet_options_set(&o, "adapter", "/there", message, sizeof message), 1);
	assert_string_equal(o.standalone.adapter, "/there");
}

static int open_model(void** state) {
	struct error error = {""};
	*state = model_open(MODEL, NULL, &error);
	return *state ? 0 : -1;
}

static int close_model(void** state) {
	model_close(*state);
	return 0;
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(output_is_plain_decodings),
	    cmocka_unit_test(any_mask_will_do),
	    cmocka_unit_test(sessions_choose),
	    cmocka_unit_test(a_copy_joins_in_mid_text),
	    cmocka_unit_test(a_batch_of_cheap_rows_makes_none),
	    cmocka_unit_test(idle_time_shows_what_making_takes),
	    cmocka_unit_test(a_slow_first_slice_is_no_verdict),
	    cmocka_unit_test(small_models_get_none),
	    cmocka_unit_test(drafts_repeat),
	    cmocka_unit_test(small_weights_draft_from_channels),
	    cmocka_unit_test(rows_by_channel_share_nothing),
	    cmocka_unit_test(options_are_checked),
	};
	return cmocka_run_group_tests(tests, open_model, close_model);
}
