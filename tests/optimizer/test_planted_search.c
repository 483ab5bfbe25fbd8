/* The layer-set search through real passes: on made-up models with planted sub-layers, windows of 32 tokens
 * that the model wrote, scored by the backend as a session scores them.
 *
 * Matchness is at least 0.95 within 1,000 proposals. The models are narrow, so that many can be run: a mask
 * with k wrong sub-layers matches as much at a width of 64 as at 256. What was found is judged on a text that
 * the search has not seen; the search on hits alone, random search alone, the start mask and the planted set
 * stand beside it. By
 * default 24 blocks and one seed; SWIFTLET_FULL=1 runs 24, 32 and 40 blocks and five seeds each. */
#include "tests/generated_text.h"

#include <stdio.h>

#include "core/model/model.h"
#include "kernels/synth_value.h"
#include "optimizer/search.h"

enum {
	PROMPT = 16,
	TEXTS = 8,
	TEXT = 260,
	UNSEEN = 420,
	PER_WINDOW = 15,
	WINDOW = 32,
	FIRST_ROWS = 8,
	STEPS = 1000
};

/* What a search is reported: influence, and hits; hits; or it proposes blindly. */
enum way { USUAL, HITS, BLIND };

/* What the search scores on, and what its result is judged on. */
struct texts {
	struct text seen[TEXTS], unseen;
	double influence[2 * MAX_BLOCKS];
};

/* The mean over a window's rows. */
static void measure_influence(struct texts* t, struct backend* backend) {
	const int sub_layers = 2 * backend->weights->shape.n_blocks;
	const uint8_t want[WINDOW] = {WANT_NOTHING};
	struct result out[WINDOW];
	struct error error;
	float* of = malloc((size_t)(sub_layers * WINDOW) * sizeof *of);
	const struct segment segment = {.cache = t->seen[0].cache, .base = PROMPT, .n = WINDOW};
	struct pass pass = pass_over(&segment, t->seen[0].token + PROMPT, NULL, sub_layers, want, out);
	pass.influence = of;
	if (!of || !backend->run(backend, &pass, &error))
		fail();
	backend->discard(t->seen[0].cache);
	for (int i = 0; i < sub_layers * WINDOW; i++)
		t->influence[i / WINDOW] += (double)of[i] / WINDOW;
	free(of);
}

static struct search* open_search(const struct texts* texts, int blocks, uint64_t seed, enum way way) {
	struct error error;
	const struct search_options options = {.blocks = blocks,
	                                       .skip_ratio = 0.45,
	                                       .bayes_interval = way == BLIND ? 0 : 25,
	                                       .max_steps = STEPS,
	                                       .patience = STEPS,
	                                       .max_matchness = 1,
	                                       .confirm = 1,
	                                       .kappa = 2.5,
	                                       .seed = seed};
	struct search* search = search_open(&options, &error);
	if (!search)
		fail_msg("%s", error.message);
	if (way == USUAL)
		search_set_influence(search, texts->influence, WINDOW);
	return search;
}

/* Window number `w`: from text to text, in each the disjoint ones first, then those between. */
static int start_of(int w) {
	const int turn = w / TEXTS, disjoint = (TEXT - 1) / WINDOW;
	const int start = turn % disjoint * WINDOW + (turn / disjoint % 2 == 1 ? WINDOW / 2 : 0);
	return start + WINDOW < TEXT ? start : 0;
}

/* Scores a proposal as the session does: given up after its first rows when it can no longer win. */
static void score(struct search* search, const struct proposal* p, const struct texts* texts, int w) {
	const struct text* text = &texts->seen[w % TEXTS];
	int rows = p->needed > 0 ? FIRST_ROWS : WINDOW;
	int matches = text_matches(text, &p->mask, start_of(w), rows);
	if (rows < WINDOW && matches + WINDOW - rows > p->needed) {
		rows = WINDOW;
		matches = text_matches(text, &p->mask, start_of(w), rows);
	}
	search_observe(search, p, matches, rows);
}

static struct mask run_search(struct texts* texts, int blocks, uint64_t seed, enum way way) {
	struct search* search = open_search(texts, blocks, seed, way);
	struct proposal proposal;
	for (int n = 0;; n++) {
		const int w = n / PER_WINDOW;
		if (n % PER_WINDOW == 0)
			search_window(search, w + 1, WINDOW);
		if (!search_propose(search, &proposal))
			break;
		score(search, &proposal, texts, w);
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

static void open_texts(struct texts* t, struct backend* backend, int vocab, uint64_t seed) {
	for (int i = 0; i < TEXTS; i++)
		t->seen[i] = write_text(backend, vocab, seed * 1000 + (uint64_t)i, TEXT);
	t->unseen = write_text(backend, vocab, seed * 1000 + TEXTS, UNSEEN);
	measure_influence(t, backend);
}

static void close_texts(struct texts* t) {
	for (int i = 0; i < TEXTS; i++)
		text_free(&t->seen[i]);
	text_free(&t->unseen);
}

static double judge(const struct texts* t, const struct mask* mask) {
	enum { WINDOWS = 12 };
	return text_matchness(&t->unseen, mask, WINDOWS);
}

static int in_both(const struct mask* a, const struct mask* b, int blocks) {
	int n = 0;
	for (int i = 0; i < 2 * blocks; i++)
		n += mask_has(a, i) && mask_has(b, i);
	return n;
}

/* Runs one search; returns the matchness of what it found. */
static double found_by(struct texts* texts, const struct mask* planted, int blocks, uint64_t seed,
                       enum way way) {
	static const char* const name[] = {"found", "by hits alone", "random only"};
	const struct mask found = run_search(texts, blocks, seed, way);
	const double matchness = judge(texts, &found);
	printf(", %s %.3f (%d of %d)", name[way], matchness, in_both(&found, planted, blocks),
	       mask_count(planted));
	fflush(stdout);
	return matchness;
}

static void check(int blocks, uint64_t seed) {
	char spec[200];
	struct error error;
	snprintf(spec, sizeof spec,
	         "synth:layers=%d,dim=64,heads=2,kv-heads=1,ffn=128,vocab=1024,dtype=f32,plant=0.45,seed=%d",
	         blocks, (int)seed);
	struct model* model = model_open(spec, NULL, &error);
	if (!model)
		fail_msg("%s", error.message);
	const struct backend_options options = {.isa = "auto", .threads = 1, .context = PROMPT + UNSEEN};
	struct backend* backend = cpu_open(&model->weights, &options, &error);
	if (!backend)
		fail_msg("%s", error.message);
	struct texts texts = {.influence = {0}};
	open_texts(&texts, backend, model->weights.shape.vocab, seed);
	const struct mask start = search_start_mask(blocks);
	const double uniform = judge(&texts, &start);
	printf("%d blocks, seed %d: planted %.3f, uniform %.3f", blocks, (int)seed,
	       judge(&texts, &model->planted[0]), uniform);
	const double usual = found_by(&texts, &model->planted[0], blocks, seed, USUAL);
	const double hits = found_by(&texts, &model->planted[0], blocks, seed, HITS);
	const double alone = found_by(&texts, &model->planted[0], blocks, seed, BLIND);
	printf("\n");
	fflush(stdout);
	assert_true(usual >= 0.95);
	assert_true(hits >= uniform + 0.15 && hits <= usual + 0.03);
	assert_true(alone < usual - 0.1);
	close_texts(&texts);
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
			check(blocks, seed);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(finds_planted_sub_layers)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
