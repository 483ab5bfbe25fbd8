/* The layer-set search through real passes: on made-up models with planted sub-layers, windows of text
 * that the model wrote, scored by the backend as a session scores them.
 *
 * Matchness at least 0.95 within 1,000 proposals on models of 24 and 32 blocks; on 40 blocks the search
 * gets most of the way (31 or 32 of the 34 planted sub-layers; one wrong costs 0.1), and what is asserted is
 * that it is far above the start mask and random search. 24 blocks and one seed by default; SWIFTLET_FULL=1
 * runs all three sizes and 5 seeds. What was found is judged on a text that the search has not seen; random
 * search alone, the start mask and the planted set stand beside it. */
#include "tests/generated_text.h"

#include <stdio.h>

#include "core/model.h"
#include "kernels/synth_value.h"
#include "optimizer/search.h"

enum { PROMPT = 16, TEXT = 1024, UNSEEN = 420, WINDOW = 32, PER_WINDOW = 15, FIRST_ROWS = 8, STEPS = 1000 };

static struct search* open_search(int blocks, uint64_t seed, bool blind) {
	struct error error;
	const struct search_options options = {.blocks = blocks,
	                                       .skip_ratio = 0.45,
	                                       .bayes_interval = blind ? 0 : 25,
	                                       .max_steps = STEPS,
	                                       .patience = STEPS,
	                                       .max_matchness = 1,
	                                       .confirm = 1,
	                                       .objective = OBJECTIVE_MATCHNESS,
	                                       .acquisition = SEARCH_UCB,
	                                       .kernel = SEARCH_MATERN52,
	                                       .kappa = 2.5,
	                                       .seed = seed};
	struct search* search = search_open(&options, &error);
	if (!search)
		fail_msg("%s", error.message);
	return search;
}

/* Window number `w` of the text: disjoint ones first, then those between. */
static int window_start(int w) {
	const int disjoint = (TEXT - 1) / WINDOW;
	return w % disjoint * WINDOW + (w / disjoint % 2 == 1 ? WINDOW / 2 : 0);
}

/* Scores a proposal as the session does: given up after its first rows when it can no longer win. */
static void score(struct search* search, const struct proposal* p, const struct text* text, int start) {
	int rows = p->needed > 0 ? FIRST_ROWS : WINDOW;
	int matches = text_matches(text, &p->mask, start, rows);
	if (rows < WINDOW && matches + WINDOW - rows > p->needed) {
		rows = WINDOW;
		matches = text_matches(text, &p->mask, start, rows);
	}
	search_observe(search, p, matches, rows);
}

static struct mask run_search(const struct text* text, int blocks, uint64_t seed, bool blind) {
	struct search* search = open_search(blocks, seed, blind);
	struct proposal proposal;
	for (int n = 0;; n++) {
		const int window = n / PER_WINDOW;
		const int start = window_start(window) < TEXT - WINDOW - 1 ? window_start(window) : 0;
		if (n % PER_WINDOW == 0)
			search_window(search, window + 1, WINDOW);
		if (!search_propose(search, &proposal))
			break;
		score(search, &proposal, text, start);
	}
	assert_int_equal(search_steps(search), STEPS);
	const struct mask best = search_best(search, NULL);
	search_close(search);
	return best;
}

static struct text write_text(struct backend* backend, int vocab, uint64_t seed, int n) {
	int32_t prompt[PROMPT];
	for (int i = 0; i < PROMPT; i++)
		prompt[i] = (int32_t)(synth_mix(synth_mix(seed) + (uint64_t)i) % (uint64_t)vocab);
	return text_generate(backend, prompt, PROMPT, n);
}

static void check(int blocks, uint64_t seed, bool beside) {
	enum { WINDOWS = 12 };
	char spec[200];
	struct error error;
	snprintf(spec, sizeof spec,
	         "synth:layers=%d,dim=256,heads=4,kv-heads=2,ffn=512,vocab=1024,dtype=f32,plant=0.45,seed=%d",
	         blocks, (int)seed);
	struct model* model = model_open(spec, NULL, &error);
	if (!model)
		fail_msg("%s", error.message);
	const struct backend_options options = {.isa = "auto", .max_caches = 2, .context = PROMPT + TEXT};
	struct backend* backend = cpu_open(&model->weights, &options, &error);
	if (!backend)
		fail_msg("%s", error.message);
	struct text text = write_text(backend, model->weights.shape.vocab, seed, TEXT);
	struct text unseen = write_text(backend, model->weights.shape.vocab, seed + 100, UNSEEN);
	const struct mask found = run_search(&text, blocks, seed, false), start = search_start_mask(blocks);
	const double matchness = text_matchness(&unseen, &found, WINDOWS);
	int planted = 0;
	for (int i = 0; i < 2 * blocks; i++)
		planted += mask_has(&found, i) && mask_has(&model->planted[0], i);
	printf("%d blocks, seed %d: search %.3f (%d of %d planted), uniform %.3f, planted %.3f", blocks,
	       (int)seed, matchness, planted, mask_count(&model->planted[0]),
	       text_matchness(&unseen, &start, WINDOWS), text_matchness(&unseen, &model->planted[0], WINDOWS));
	if (beside) {
		const struct mask blind = run_search(&text, blocks, seed, true);
		const double alone = text_matchness(&unseen, &blind, WINDOWS);
		printf(", random only %.3f", alone);
		assert_true(alone < matchness - 0.1);
	}
	printf("\n");
	fflush(stdout);
	assert_true(matchness >= (blocks <= 32 ? 0.95 : text_matchness(&unseen, &start, WINDOWS) + 0.15));
	text_free(&text);
	text_free(&unseen);
	backend->close(backend);
	model_close(model);
}

static bool full(void) {
	const char* value = getenv("SWIFTLET_FULL");
	return value && strcmp(value, "1") == 0;
}

static void finds_planted_sub_layers(void** state) {
	(void)state;
	const uint64_t seeds = full() ? 5 : 1;
	for (int blocks = 24; blocks <= (full() ? 40 : 24); blocks += 8)
		for (uint64_t seed = 1; seed <= seeds; seed++)
			check(blocks, seed, true);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(finds_planted_sub_layers)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
