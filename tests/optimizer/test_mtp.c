/* An MTP layer that drafts: the text is plain decoding's, greedy and sampled, with penalties, a grammar and
 * memory that was given away meanwhile, whether it drafts well or not; acceptance is counted right; a good
 * one pays, a useless one costs next to nothing, by a clock that passes alone move; its steps allocate
 * nothing; its cache holds what the text says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/decode/session_state.h"
#include "tests/count_allocations.h"

/* Of SEEN tokens the layer's cache holds all but the first. */
enum { PROMPT = 300, SEEN = 40, TOKENS = 600, REQUESTS = 7 };

/* The layer's block is the model's only one, so that it predicts what the model does: nearly always where the
 * model is wide; and one of four blocks, of which the layer is a poor copy. */
#define SHAPE "heads=4,kv-heads=2,vocab=512,dtype=f16,seed=3,mtp=1,"
static const char COPY[] = "synth:" SHAPE "layers=1,dim=512,ffn=512",
                  GOOD[] = "synth:" SHAPE "layers=1,dim=64,ffn=128",
                  POOR[] = "synth:" SHAPE "layers=4,dim=64,ffn=128";

/* ---- a clock that passes move ------------------------------------------------------------- */

/* A row of the model itself takes a millisecond, each further one a fiftieth more; of the layer a quarter of
 * that. */
static struct {
	double now;
	bool (*run)(struct backend*, const struct pass*, struct error*);
	const struct backend* drafts;
} timed;

static double time_now(void* user) {
	(void)user;
	return timed.now;
}

static bool run_timed(struct backend* b, const struct pass* pass, struct error* error) {
	timed.now += (b == timed.drafts ? 2.5e-4 : 1e-3) * (1 + 0.02 * (pass->n - 1));
	return timed.run(b, pass, error);
}

/* ---- sessions ----------------------------------------------------------------------------- */

struct bench {
	swiftlet_model* model;
	swiftlet_engine* engine;
	swiftlet_session* session;
	int32_t prompt[PROMPT];
};

/* which: 0 is plain decoding */
static void open_bench(struct bench* b, const char* spec, unsigned which) {
	char message[512] = "";
	struct swiftlet_options options;
	options_default(&options);
	options.threads = 1;
	options.context = PROMPT + TOKENS;
	options.search = false;
	options.draft_bits = 0;
	options.drafters = which;
	options.clock = time_now;
	options.method = which ? SWIFTLET_AUTO : SWIFTLET_VANILLA;
	snprintf(options.backend, sizeof options.backend, "cpu");
	b->model = swiftlet_model_open(spec, &options, message, sizeof message);
	if (!b->model)
		fail_msg("%s", message);
	b->engine = swiftlet_engine_open(b->model, &options, message, sizeof message);
	if (!b->engine)
		fail_msg("%s", message);
	timed.run = b->engine->backend->run;
	b->engine->backend->run = run_timed;
	timed.drafts = b->engine->mtp;
	assert_true(!which == !b->engine->mtp);
	if (b->engine->mtp) {
		/* the bytes say what the clock says, whatever the layer's share of so small a model is */
		struct cost_bytes* bytes = &b->engine->mtp_cost.stored;
		const double scale = 0.25 * cost_all_bytes(&b->engine->cost) / cost_all_bytes(&b->engine->mtp_cost);
		*bytes = (struct cost_bytes){scale * bytes->attention, scale * bytes->mlp, scale * bytes->fixed};
		b->engine->mtp->run = run_timed;
	}
	b->session = swiftlet_session_open(b->engine, &options, message, sizeof message);
	if (!b->session)
		fail_msg("%s", message);
	for (int i = 0; i < PROMPT; i++)
		b->prompt[i] = (i * 37 + 11) % 256;
}

static void close_bench(struct bench* b) {
	swiftlet_session_close(b->session);
	swiftlet_engine_close(b->engine);
	swiftlet_model_close(b->model);
}

struct text {
	int32_t token[TOKENS];
	int n, allocated, releases;
	double seconds;
	struct swiftlet_figures figures;
};

/* The layer's cache holds a row for each token of some end of the text but its last ones. */
static void check_cache(struct session* s, int n) {
	const struct mtp* m = &s->mtp;
	assert_true(!m->cache ||
	            (m->cache->pending == 0 && m->start > 0 && m->start + m->cache->committed <= PROMPT + n + 1));
}

/* One generation; given: after so many steps, again and again, its memory goes to others. */
static struct text* generate(struct bench* b, const struct swiftlet_request* request, int given) {
	char message[512] = "";
	struct swiftlet_step step;
	struct text* text = calloc(1, sizeof *text);
	assert_true(swiftlet_session_start(b->session, request, message, sizeof message));
	int steps = 0;
	do {
#if ALLOCATIONS_COUNTED
		const int before = atomic_load(&allocations);
#endif
		const bool ran = swiftlet_session_step(b->session, &step, message, sizeof message);
#if ALLOCATIONS_COUNTED
		text->allocated += atomic_load(&allocations) - before;
#endif
		if (!ran)
			fail_msg("%s", message);
		for (int i = 0; i < step.n; i++)
			text->token[text->n++] = step.token[i].id;
		if (given > 0 && ++steps % given == 0 && step.stop == SWIFTLET_RUNNING) {
			session_release(b->session);
			text->releases++;
		}
	} while (step.stop == SWIFTLET_RUNNING);
	swiftlet_session_figures(b->session, &text->figures);
	check_cache(b->session, text->n);
	text->seconds = text->figures.seconds.decode;
	return text;
}

static void same_text(const struct text* a, const struct text* b) {
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->token, b->token, sizeof a->token);
}

/* ---- the same text ------------------------------------------------------------------------ */

static void lossless(const char* spec, bool helps) {
	static const char expression[] = "((no way but this one|[a-z]{1,40}[0-9])[ -z]+;)*";
	static const struct swiftlet_bias bias = {40, 3};
	struct bench plain, bench;
	swiftlet_grammar* grammar = swiftlet_grammar_regex(expression, sizeof expression - 1, NULL, 0);
	const struct swiftlet_request requests[] = {
	    {.top_p = 1},
	    {.temperature = 0.8, .top_p = 0.95, .seed = 7},
	    {.temperature = 5, .top_p = 0.99, .top_k = 100, .min_p = 1e-6, .seed = 9},
	    {.top_p = 1, .frequency_penalty = 0.5, .repetition_penalty = 1.2, .bias = &bias, .n_bias = 1},
	    {.top_p = 1, .grammar = grammar},
	    {.temperature = 1, .top_p = 0.99, .seed = 9, .grammar = grammar},
	    {.top_p = 1, .logprobs = 3},
	};
	int64_t accepted = 0, rows = 0;
	for (int i = 0; i < REQUESTS; i++) {
		struct swiftlet_request request = requests[i];
		request.max_tokens = TOKENS / 3;
		for (int given = 0; given < 2; given++) {
			request.n_prompt = given ? PROMPT / 4 : PROMPT;
			open_bench(&plain, spec, 0);
			request.prompt = plain.prompt;
			struct text* expected = generate(&plain, &request, 0);
			close_bench(&plain);
			open_bench(&bench, spec, given ? ~0u : 1u << SOURCE_mtp);
			request.prompt = bench.prompt;
			struct text* text = generate(&bench, &request, given ? 12 : 0);
			same_text(expected, text);
			accepted += text->figures.source[SOURCE_mtp].accepted;
			rows += text->figures.source[SOURCE_mtp].rows;
			if (!given)
				assert_int_equal(text->allocated, 0);
			assert_true(!given || text->releases > 0);
			struct text* again = generate(&bench, &request, 0); /* what was kept of it is a prefix */
			same_text(expected, again);
			close_bench(&bench);
			free(expected);
			free(text);
			free(again);
		}
	}
	print_message("%s: %lld of %lld rows accepted\n", spec, (long long)accepted, (long long)rows);
	assert_true(rows > 0 && (!helps || accepted > REQUESTS * TOKENS / 20));
	swiftlet_grammar_free(grammar);
}

static void a_good_layer_changes_nothing(void** state) {
	(void)state;
	lossless(GOOD, true);
}

static void a_poor_layer_changes_nothing(void** state) {
	(void)state;
	lossless(POOR, false);
}

/* ---- what it costs and brings --------------------------------------------------------------- */

/* *first: the share of the layer's first choices that were right, lately. */
static double seconds_of(const char* spec, unsigned which, double temperature, struct text** out,
                         double* first) {
	struct bench b;
	open_bench(&b, spec, which);
	struct swiftlet_request request = {.prompt = b.prompt,
	                                   .n_prompt = SEEN,
	                                   .max_tokens = TOKENS,
	                                   .temperature = temperature,
	                                   .top_p = 1,
	                                   .seed = 5,
	                                   .ignore_eos = true};
	*out = generate(&b, &request, 0);
	*first = (double)acceptance_first(session_acceptance(b.session), SOURCE_mtp);
	close_bench(&b);
	return (*out)->seconds;
}

/* The layer and the model agree but where the first tokens, which its cache lacks, decide. Sampled drafts add
 * the noise of the model's own position, or they would be right by chance alone. At c = 0.25 the planner
 * takes rounds of several steps. */
static void a_copy_of_the_model_is_right(void** state) {
	(void)state;
	for (int sampled = 0; sampled < 2; sampled++) {
		struct text *plain, *drafted;
		double first;
		const double without = seconds_of(COPY, 0, 0.7 * sampled, &plain, &first);
		const double with = seconds_of(COPY, 1u << SOURCE_mtp, 0.7 * sampled, &drafted, &first);
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
}

/* Design, promise 3: 2 % of plain time, and 8 steps to begin with. */
static void a_useless_one_rests(void** state) {
	(void)state;
	struct text *plain, *drafted;
	double first;
	const double without = seconds_of(POOR, 0, 0, &plain, &first);
	const double with = seconds_of(POOR, 1u << SOURCE_mtp, 0, &drafted, &first);
	same_text(plain, drafted);
	print_message("useless: %.3f s, %.3f s without\n", with, without);
	if (with > 1.02 * without + 8e-3)
		fail_msg("%.3f s with the layer, %.3f s without", with, without);
	free(plain);
	free(drafted);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_good_layer_changes_nothing),
	    cmocka_unit_test(a_poor_layer_changes_nothing),
	    cmocka_unit_test(a_copy_of_the_model_is_right),
	    cmocka_unit_test(a_useless_one_rests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
