/* Texts of a model for which another one drafts, on a clock that passes alone move. Included once by a test,
 * which defines PROMPT and TOKENS before it: as count_allocations.h it has definitions. */
#pragma once

#include "core/decode/session_state.h"
#include "tests/count_allocations.h"
#include "tests/must_session.h"

/* ---- a clock that passes move ------------------------------------------------------------- */

/* A row of the model itself takes a millisecond, each further one a fiftieth more; of what drafts a
 * quarter of that. */
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

static void set_options(struct swiftlet_options* options, const char* backend, unsigned which) {
	options_default(options);
	snprintf(options->engine.backend, sizeof options->engine.backend, "%s", backend);
	options->engine.threads = 1;
	options->cache.context = PROMPT + TOKENS;
	options->learning.search = false;
	options->draft_weights.bits = 0;
	options->drafting.drafters = which;
	options->clock = time_now;
}

/* Opens a model and its engine, whose passes the clock sees. */
static void open_engine(struct bench* b, const char* spec, const struct swiftlet_options* options) {
	b->model = must_open_model(spec, options);
	b->engine = must_open_engine(b->model, options);
	timed.run = b->engine->backend->run;
	b->engine->backend->run = run_timed;
	timed.drafts = NULL;
}

/* The clock sees the passes of this one, too, which drafts. */
static void time_drafts(struct backend* drafts) {
	drafts->run = run_timed;
	timed.drafts = drafts;
}

static void open_session(struct bench* b, const struct swiftlet_options* options) {
	b->session = must_open_session(b->engine, options);
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
	text->seconds = text->figures.seconds.decode;
	return text;
}

static void same_text(const struct text* a, const struct text* b) {
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->token, b->token, sizeof a->token);
}

/* ---- requests ----------------------------------------------------------------------------- */

enum { VARIETY = 7 };

/* Greedy and sampled, with penalties, a grammar and log probabilities. */
static struct swiftlet_request request_of(int i, swiftlet_grammar* grammar) {
	static const struct swiftlet_bias bias = {40, 3};
	const struct swiftlet_request requests[VARIETY] = {
	    {.top_p = 1},
	    {.temperature = 0.8, .top_p = 0.95, .seed = 7},
	    {.temperature = 5, .top_p = 0.99, .top_k = 100, .min_p = 1e-6, .seed = 9},
	    {.top_p = 1, .frequency_penalty = 0.5, .repetition_penalty = 1.2, .bias = &bias, .n_bias = 1},
	    {.top_p = 1, .grammar = grammar},
	    {.temperature = 1, .top_p = 0.99, .seed = 9, .grammar = grammar},
	    {.top_p = 1, .logprobs = 3},
	};
	return requests[i];
}

static swiftlet_grammar* open_grammar(void) {
	static const char expression[] = "((no way but this one|[a-z]{1,40}[0-9])[ -z]+;)*";
	return swiftlet_grammar_regex(expression, sizeof expression - 1, NULL, 0);
}
