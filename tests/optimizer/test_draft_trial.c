/* A trial of draft weights before they are made: its rows say what the stored weights without some channels
 * say, the sequence is as before, and what follows of them is what costs and matchness give. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/decode/session.h"
#include "core/decode/session_state.h"
#include "tests/must_session.h"

enum { PROMPT = 24, TOKENS = 160 };

static const char MODEL[] =
    "synth:layers=6,dim=256,heads=4,kv-heads=2,ffn=512,vocab=1024,dtype=f16,plant=0.45";

static struct engine* open_engine(struct model* model, const char* isa) {
	struct swiftlet_options o;
	options_default(&o);
	o.draft_weights.bits = 0;
	o.engine.threads = 2;
	snprintf(o.engine.backend, sizeof o.engine.backend, "cpu");
	snprintf(o.engine.isa, sizeof o.engine.isa, "%s", isa);
	o.cache.context = PROMPT + TOKENS;
	struct engine* engine = must_open_engine(model, &o);
	struct error error;
	const struct draft_weights_request wish = {.format = {.bits = 4, .columns = true}};
	assert_true(draft_weights_memory_open(&engine->draft_weights, model, &wish, &error));
	assert_true(engine->backend->use_draft_weights(engine->backend, &engine->draft_weights.table, &error));
	engine->making =
	    draft_weights_job_open(&engine->draft_weights.table, engine->draft_weights.data, 2, &error);
	assert_non_null(engine->making);
	return engine;
}

/* Seconds that each look at the clock takes */
static double tick, now;
static double ticking_clock(void* user) {
	(void)user;
	return now += tick;
}

static struct session* start(struct engine* engine, double temperature, bool drafts) {
	static int32_t prompt[PROMPT];
	char message[512];
	struct swiftlet_options o;
	options_default(&o);
	o.cache.context = PROMPT + TOKENS;
	o.learning.search = false;
	o.clock = ticking_clock;
	o.drafting.method = drafts ? o.drafting.method : SWIFTLET_VANILLA;
	struct session* s = must_open_session(engine, &o);
	for (int i = 0; i < PROMPT; i++)
		prompt[i] = i * 37 % 1024;
	struct swiftlet_request request;
	swiftlet_request_default(&request, &o);
	request.prompt = prompt;
	request.n_prompt = PROMPT;
	request.max_tokens = TOKENS;
	request.temperature = temperature;
	request.seed = 7;
	if (!swiftlet_session_start(s, &request, message, sizeof message))
		fail_msg("%s", message);
	return s;
}

/* Steps until so many tokens were generated, or to the end. */
static void generate(struct session* s, int tokens) {
	struct error error;
	struct swiftlet_step step = {.stop = SWIFTLET_RUNNING};
	while (step.stop == SWIFTLET_RUNNING && s->n_text - s->n_prompt < tokens)
		if (!session_step(s, &step, &error))
			fail_msg("%s", error.message);
}

/* The rows of a trial of the last tokens that come out again, without so many per cent of all channels. */
static int count_right(struct session* s, int left_out) {
	struct error error;
	struct pass pass;
	const struct draft_trials before = s->engine->trials;
	draft_trial_begin(s);
	memset(&s->engine->levels, left_out, sizeof s->engine->levels);
	draft_trial_fill(s, &pass);
	if (!s->engine->backend->run(s->engine->backend, &pass, &error))
		fail_msg("%s", error.message);
	draft_trial_take(s);
	assert_false(s->trial.wanted);
	assert_float_equal(s->engine->trials.rows, before.rows + TRIAL_ROWS, 0);
	return (int)(s->engine->trials.right - before.right);
}

/* With all channels every row gives its token again, greedy and sampled; with fewer and fewer channels fewer
 * do. The text goes on as if nothing had been tried, and as plain decoding's. */
static void rows_say_what_is_left(void** state) {
	static const char* const isa[] = {"reference", "auto"};
	for (int i = 0; i < 2; i++) {
		struct engine* engine = open_engine(*state, isa[i]);
		for (int sampled = 0; sampled < 2; sampled++) {
			struct session* s = start(engine, sampled ? 0.8 : 0, true);
			struct session* plain = start(engine, sampled ? 0.8 : 0, false);
			generate(s, TRIAL_ROWS + 5);
			assert_true(draft_trial_can_run(s));
			assert_int_equal(count_right(s, 0), TRIAL_ROWS);
			const int most = count_right(s, 5), half = count_right(s, 50), few = count_right(s, 99);
			printf("%s, sampled %d: %d, %d, %d of %d\n", isa[i], sampled, most, half, few, TRIAL_ROWS);
			assert_true(most >= half && half >= few && most >= TRIAL_ROWS - 1 && few < TRIAL_ROWS);
			generate(s, TOKENS);
			generate(plain, TOKENS);
			assert_int_equal(s->n_text, plain->n_text);
			assert_memory_equal(s->text, plain->text, (size_t)s->n_text * sizeof *s->text);
			swiftlet_session_close(plain);
			swiftlet_session_close(s);
		}
		swiftlet_engine_close(engine);
	}
}

/* Not with few tokens, with a request's penalties, or on a backend that leaves out nothing. */
static void not_everything_can_be_tried(void** state) {
	struct engine* engine = open_engine(*state, "auto");
	struct session* s = start(engine, 0, true);
	generate(s, 3);
	draft_trial_begin(s);
	assert_false(s->trial.wanted);
	generate(s, 12);
	draft_trial_begin(s);
	assert_true(s->trial.wanted);
	s->trial.wanted = false;
	s->history.on = true;
	assert_false(draft_trial_can_run(s));
	s->history.on = false;
	engine->backend->thins = false;
	assert_false(draft_trial_can_run(s));
	swiftlet_session_close(s);
	swiftlet_engine_close(engine);
}

/* tokens / cost of a chain of d steps, in other words than chain_rate's */
static double best_rate(const struct cost_model* cost, int most, double alpha, double c) {
	double best = 0;
	for (int d = 1; d <= most; d++)
		best = fmax(best, (1 - pow(alpha, d + 1)) / (1 - alpha) / (d * c + cost_verify(cost, d + 1)));
	return best;
}

/* Draft weights pay from the matchness on at which the best chain gains a tenth. The head of this model is
 * read whole. */
static void worth_follows_from_matchness(void** state) {
	struct engine* engine = open_engine(*state, "auto");
	engine->backend->bounds_guesses = false;
	struct session* s = start(engine, 0, true);
	generate(s, 40);
	for (int i = 0; i < 16; i++) {
		cost_see_full(&engine->cost, 1, 0.010, 0);
		for (int n = 2; n <= SLICE_ROWS; n *= 2)
			cost_see_full(&engine->cost, n, 0.010 + 0.0015 * (n - 1), 0);
	}
	const struct mask none = {.word = {0}};
	bool head;
	const struct mask all = draft_weights_sub_layers(&engine->draft_weights.table, &none, &head);
	struct cost_model cost = engine->cost;
	cost_use_draft_weights(&cost, &engine->draft_weights.table);
	const struct variant with = {
	    .skip = &none, .quantized = &all, .quantized_head = head, .levels = &engine->levels};
	const double c = cost_draft(&cost, with);
	int turned = 0;
	bool before = false;
	for (int right = 0; right <= 160; right++) {
		engine->trials = (struct draft_trials){.right = right, .rows = 160, .at = 40};
		const bool pays = draft_trial_pays(s);
		assert_int_equal(pays,
		                 best_rate(&cost, s->options.drafting.max_draft, (right + 3.2) / 164, c) >= 1.1);
		turned += pays != before;
		before = pays;
	}
	assert_true(before && turned == 1);
	swiftlet_session_close(s);
	swiftlet_engine_close(engine);
}

/* There is a trial before any draft weights are made and one before all of them are. If they say that draft
 * weights do not pay, none are made, and there is another one after four times as many tokens. */
static void trials_come_before_making(void** state) {
	for (int pays = 0; pays < 2; pays++) {
		tick = 1e-7; /* a slice is one part a thread */
		struct engine* engine = open_engine(*state, "auto");
		struct session* s = start(engine, 0, true);
		generate(s, TRIAL_ROWS - 2);
		assert_true(draft_weights_job_share(engine->making) == 0 && engine->trials.rows == 0);
		engine->trials = (struct draft_trials){.right = pays ? TRIAL_ROWS : 0, .rows = TRIAL_ROWS, .at = 50};
		engine->draft_weights_steps = 20;
		engine->draft_weights_slices = 2;
		s->budget->plain = 100;
		generate(s, 16);
		assert_float_equal(engine->trials.rows, 2 * TRIAL_ROWS, 0);
		assert_true(engine->trials.at >= 100);
		engine->trials = (struct draft_trials){.right = pays ? 1000 : 0, .rows = 1000, .at = 50};
		const double made = draft_weights_job_share(engine->making);
		s->budget->learned = 0;
		s->budget->plain = 190;
		generate(s, 20);
		assert_float_equal(engine->trials.rows, 1000, 0);
		printf("pays %d: made %.3f, then %.3f\n", pays, made, draft_weights_job_share(engine->making));
		assert_true(pays ? draft_weights_job_share(engine->making) > made
		                 : draft_weights_job_share(engine->making) == made);
		s->budget->plain = 200;
		generate(s, 40);
		if (!pays)
			assert_float_equal(engine->trials.rows, 1000 + TRIAL_ROWS, 0);
		swiftlet_session_close(s);
		swiftlet_engine_close(engine);
	}
	tick = 0;
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
	    cmocka_unit_test(rows_say_what_is_left), cmocka_unit_test(not_everything_can_be_tried),
	    cmocka_unit_test(worth_follows_from_matchness), cmocka_unit_test(trials_come_before_making)};
	return cmocka_run_group_tests(tests, open_model, close_model);
}
