/* Another model that drafts: the text is plain decoding's, greedy and sampled, with penalties, a grammar and
 * memory that was given away meanwhile, whether it drafts well or not; a good one pays, a useless one costs
 * next to nothing, by a clock that passes alone move; its steps allocate nothing; another vocabulary is
 * refused. Linked a second time with the emulated GPU, for texts that are short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef SWIFTLET_EMULATED
enum { PROMPT = 40, TOKENS = 60, REQUESTS = 2 };
static const char BACKEND[] = "cuda";
#else
enum { PROMPT = 300, TOKENS = 600, REQUESTS = 7 };
static const char BACKEND[] = "cpu";
#endif

#include "tests/optimizer/timed_drafts.h"

/* one model and, of the same tokens, the same again and one that knows nothing of it */
#define SHAPE "synth:layers=4,dim=64,heads=4,kv-heads=2,ffn=128,vocab=512,dtype=f16,"
static const char MODEL[] = SHAPE "seed=3", STRANGER[] = SHAPE "seed=8";

/* ---- sessions ----------------------------------------------------------------------------- */

static void open_bench(struct bench* b, const char* spec, const char* drafts, unsigned which) {
	struct swiftlet_options options;
	set_options(&options, BACKEND, which);
	options.drafting.method = drafts ? SWIFTLET_AUTO : SWIFTLET_VANILLA;
	snprintf(options.drafting.model, sizeof options.drafting.model, "%s", drafts ? drafts : "");
	open_engine(b, spec, &options);
	if (drafts)
		time_drafts(b->engine->drafting->backend);
	open_session(b, &options);
}

/* ---- the same text ------------------------------------------------------------------------ */

static void lossless(const char* drafts, bool helps) {
	struct bench plain, bench;
	swiftlet_grammar* grammar = open_grammar();
	open_bench(&plain, MODEL, NULL, 0);
	int64_t accepted = 0;
	for (int i = 0; i < REQUESTS; i++) {
		struct swiftlet_request request = request_of(i, grammar);
		request.max_tokens = TOKENS / 3;
		for (int given = 0; given < 2; given++) {
			request.n_prompt = given ? PROMPT / 4 : PROMPT;
			request.prompt = plain.prompt;
			struct text* expected = generate(&plain, &request, 0);
			/* which drafts first is a matter of who learned what, so each begins anew */
			open_bench(&bench, MODEL, drafts, ~0u);
			struct text* text = generate(&bench, &request, given ? 12 : 0);
			same_text(expected, text);
			accepted += text->figures.source[SOURCE_model].accepted;
#ifndef SWIFTLET_EMULATED /* whose device is made of memory */
			if (!given)
				assert_int_equal(text->allocated, 0);
#endif
			assert_true(!given || text->releases > 0);
			struct text* again = generate(&bench, &request, 0); /* what was kept of it is a prefix */
			same_text(expected, again);
			session_set_tenant(bench.session, 2, false);
			assert_int_equal(bench.session->draft_cache->committed, 0);
			close_bench(&bench);
			timed.drafts = NULL;
			free(expected);
			free(text);
			free(again);
		}
	}
	assert_true(!helps || accepted > REQUESTS * TOKENS / 20);
	close_bench(&plain);
	swiftlet_grammar_free(grammar);
}

static void a_model_drafts_for_itself(void** state) {
	(void)state;
	lossless(MODEL, true);
}

static void a_stranger_changes_nothing(void** state) {
	(void)state;
	lossless(STRANGER, false);
}

/* ---- what it costs and brings --------------------------------------------------------------- */

#ifndef SWIFTLET_EMULATED
static double seconds_of(const char* drafts, unsigned which, int tokens, struct text** out) {
	struct bench b;
	open_bench(&b, MODEL, drafts, which);
	struct swiftlet_request request = {
	    .prompt = b.prompt, .n_prompt = PROMPT, .max_tokens = tokens, .top_p = 1, .ignore_eos = true};
	*out = generate(&b, &request, 0);
	close_bench(&b);
	return (*out)->seconds;
}

/* Drafts that are always right at c = 0.25: of rounds of n steps and a token that comes on top the planner
 * takes those that are worth it, (n + 1) / (0.25·n + v(n + 1)), 2.5 at n = 8. */
static void a_good_one_pays(void** state) {
	(void)state;
	struct text *plain, *drafted;
	const double without = seconds_of(NULL, 0, TOKENS, &plain);
	const double with = seconds_of(MODEL, 1u << SOURCE_model, TOKENS, &drafted);
	same_text(plain, drafted);
	assert_true(drafted->figures.source[SOURCE_model].accepted > TOKENS / 2);
	if (with > without / 2)
		fail_msg("%.3f s with the draft model, %.3f s without", with, without);
	free(plain);
	free(drafted);
}

/* Design, promise 3: 2 % of plain time, and 8 steps to begin with. Reading the prompt counts as prefill. */
static void a_useless_one_rests(void** state) {
	(void)state;
	struct text *plain, *drafted;
	const double without = seconds_of(NULL, 0, TOKENS, &plain);
	const double with = seconds_of(STRANGER, 1u << SOURCE_model, TOKENS, &drafted);
	same_text(plain, drafted);
	if (with > 1.02 * without + 8e-3)
		fail_msg("%.3f s with the draft model, %.3f s without", with, without);
	free(plain);
	free(drafted);
}

/* A few tokens do not pay for reading a long prompt. */
static void a_long_prompt_is_not_read_for_nothing(void** state) {
	(void)state;
	struct text *few, *many;
	seconds_of(MODEL, 1u << SOURCE_model, 12, &few);
	seconds_of(MODEL, 1u << SOURCE_model, 200, &many);
	assert_int_equal(few->figures.source[SOURCE_model].rows, 0);
	assert_true(many->figures.source[SOURCE_model].rows > 0);
	free(few);
	free(many);
}

#endif

/* ---- what is refused ------------------------------------------------------------------------ */

static void refuses(const char* spec, const char* drafts, const char* why) {
	char message[512] = "";
	struct swiftlet_options options;
	options_default(&options);
	snprintf(options.engine.backend, sizeof options.engine.backend, "cpu");
	assert_int_equal(swiftlet_options_set(&options, "draft-model", drafts, message, sizeof message), 1);
	swiftlet_model* model = swiftlet_model_open(spec, &options, message, sizeof message);
	assert_non_null(model);
	assert_null(swiftlet_engine_open(model, &options, message, sizeof message));
	if (!strstr(message, why))
		fail_msg("%s", message);
	swiftlet_model_close(model);
}

static void another_vocabulary_is_refused(void** state) {
	(void)state;
	refuses(MODEL, "builtin", "--draft-model builtin: its vocabulary of ");
	refuses("builtin", STRANGER, " differs from that of builtin, which has ");
	refuses(MODEL, "nothing.gguf", "--draft-model: nothing.gguf: ");
	refuses(MODEL, "synth:layers=0", "--draft-model: ");
}

int main(void) {
#ifdef SWIFTLET_EMULATED
	struct error error;
	if (!cuda_available(&error)) { /* asked here, so that the emulated one is linked */
		printf("%s\n", error.message);
		return 1;
	}
#endif
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_model_drafts_for_itself),
	                                   cmocka_unit_test(a_stranger_changes_nothing),
#ifndef SWIFTLET_EMULATED
	                                   cmocka_unit_test(a_good_one_pays),
	                                   cmocka_unit_test(a_useless_one_rests),
	                                   cmocka_unit_test(a_long_prompt_is_not_read_for_nothing),
#endif
	                                   cmocka_unit_test(another_vocabulary_is_refused)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
