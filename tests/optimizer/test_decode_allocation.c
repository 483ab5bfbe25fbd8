/* The decode path allocates nothing, seen from a session: drafting, trees of more rows than a slice,
 * verifying, sampling and committing run under a count of every call of malloc and its kin; greedy, sampled,
 * with log probabilities and stop strings, and where quantized draft weights join. The search's work
 * between rounds is not the decode path, and is off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "core/decode/session_state.h"
#include "tests/count_allocations.h"
#include "tests/must_session.h"

#if !ALLOCATIONS_COUNTED
int main(void) { return allocations_not_counted(); }
#else

enum { PROMPT = 300, TOKENS = 120, PAPER = -1 };

struct bench {
	swiftlet_model* model;
	swiftlet_engine* engine;
	swiftlet_session* session;
	int32_t prompt[PROMPT];
};

static void open_bench(struct bench* b, const char* spec, int max_tree) {
	struct swiftlet_options options;
	options_default(&options);
	options.engine.threads = 2;
	options.cache.context = 512;
	options.drafting.when = SWIFTLET_DRAFT_ALWAYS;
	options.learning.search = false;
	options.drafting.threshold = 0; /* every draft as long as can be, every depth as wide */
	options.drafting.max_tree = max_tree;
	for (int i = 0; i < 4; i++)
		options.drafting.tree_top_k[i] = TREE_RANKS;
	b->model = must_open_model(spec, &options);
	b->engine = must_open_engine(b->model, &options);
	b->session = must_open_session(b->engine, &options);
	for (int i = 0; i < PROMPT; i++)
		b->prompt[i] = (i * 37 + 11) % 256;
}

static void close_bench(struct bench* b) {
	swiftlet_session_close(b->session);
	swiftlet_engine_close(b->engine);
	swiftlet_model_close(b->model);
}

/* One generation; the widest tree it verified. Its allocations are added to *allocated. */
static int generate(struct bench* b, const struct swiftlet_request* request, int* allocated) {
	char message[512] = "";
	struct swiftlet_step step;
	int widest = 0;
	assert_true(swiftlet_session_start(b->session, request, message, sizeof message));
	do {
		const int before = atomic_load(&allocations);
		const bool ran = swiftlet_session_step(b->session, &step, message, sizeof message);
		*allocated += atomic_load(&allocations) - before;
		assert_true(ran);
		if (b->session->planner.tree.n > widest)
			widest = b->session->planner.tree.n;
	} while (step.stop == SWIFTLET_RUNNING);
	return widest;
}

/* Draft weights that are made, and that no session has found yet. */
static void make_draft_weights(struct bench* b) {
	struct error error = {""};
	struct draft_weights_memory* quantized = &b->engine->draft_weights;
	const struct draft_weights_request wish = {.format = {.bits = 4}};
	assert_true(draft_weights_memory_open(quantized, b->model, &wish, &error));
	assert_true(b->engine->backend->use_draft_weights(b->engine->backend, &quantized->table, &error));
	b->engine->making = draft_weights_job_open(&quantized->table, quantized->data, 2, &error);
	assert_non_null(b->engine->making);
	while (draft_weights_job_run(b->engine->making, 1) < 1)
		;
}

static void decode(const char* spec, int max_tree, int least_rows, bool copy) {
	static const char* const stop[] = {"never to be found"};
	static const struct swiftlet_bias bias = {40, 3};
	struct bench b;
	/* where some texts have to come, and others branch; none ends before the limit does */
	static const char expression[] = "((no way but this one|[a-z]{1,40}[0-9])[ -z]+;)*";
	swiftlet_grammar* grammar = swiftlet_grammar_regex(expression, sizeof expression - 1, NULL, 0);
	assert_non_null(grammar);
	assert_true(allocations_are_seen());
	open_bench(&b, spec, max_tree);
	if (copy)
		make_draft_weights(&b);
	const struct swiftlet_request requests[] = {
	    {.temperature = 0, .top_p = 1},
	    {.temperature = 5, .top_p = 0.99, .top_k = 100, .min_p = 1e-6, .seed = 7},
	    {.temperature = 0,
	     .top_p = 1,
	     .frequency_penalty = 0.5,
	     .repetition_penalty = 1.2,
	     .bias = &bias,
	     .n_bias = 1},
	    {.temperature = 0, .top_p = 1, .logprobs = 5, .stop = stop, .n_stop = 1},
	    {.temperature = 0, .top_p = 1, .grammar = grammar},
	    {.temperature = 5, .top_p = 0.99, .seed = 9, .grammar = grammar},
	};
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
		struct swiftlet_request request = requests[i];
		request.prompt = b.prompt;
		request.n_prompt = PROMPT;
		request.max_tokens = TOKENS;
		int allocated = 0;
		const int widest = generate(&b, &request, &allocated);
		assert_int_equal(allocated, 0);
		if (!request.logprobs && !request.grammar) /* whose trees are kept small, or cut */
			assert_true(widest >= least_rows);
		assert_int_equal(b.session->drafts.any, copy);
	}
	close_bench(&b);
	swiftlet_grammar_free(grammar);
}

static const char* const model =
    "synth:layers=6,dim=64,heads=4,kv-heads=2,ffn=128,vocab=512,dtype=f16,seed=3";

/* 25 steps of 10 candidates each: 2,000 bytes of them are sorted. */
static void every_candidate(void** state) {
	(void)state;
	decode(model, PAPER, 200, false);
}

static void best_candidates(void** state) {
	(void)state;
	decode(model, 64, 64, false);
}

static void with_a_copy(void** state) {
	(void)state;
	decode(model, 64, 64, true);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_candidate), cmocka_unit_test(best_candidates),
	                                   cmocka_unit_test(with_a_copy)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
