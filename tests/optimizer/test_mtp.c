/* An MTP layer that drafts: the text is plain decoding's, greedy and sampled, with penalties, a grammar and
 * memory that was given away meanwhile, whether it drafts well or not; acceptance is counted right; a good
 * one pays, a useless one costs next to nothing, by a clock that passes alone move; its steps allocate
 * nothing; its cache holds the text's tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The layer's cache holds all of SEEN tokens but the first. */
enum { PROMPT = 300, SEEN = 40, TOKENS = 600, REQUESTS = 7 };

#include "tests/optimizer/timed_drafts.h"

/* The layer's block is the model's only one, so that it predicts what the model does: nearly always where the
 * model is wide; and one of four blocks, of which the layer is a poor copy. */
#define SHAPE "heads=4,kv-heads=2,vocab=512,dtype=f16,seed=3,mtp=1,"
static const char COPY[] = "synth:" SHAPE "layers=1,dim=512,ffn=512",
                  GOOD[] = "synth:" SHAPE "layers=1,dim=64,ffn=128",
                  POOR[] = "synth:" SHAPE "layers=4,dim=64,ffn=128";

/* ---- sessions ----------------------------------------------------------------------------- */

/* which: 0 is plain decoding */
static void open_bench(struct bench* b, const char* spec, unsigned which) {
	struct swiftlet_options options;
	set_options(&options, "cpu", which);
	options.drafting.method = which ? SWIFTLET_AUTO : SWIFTLET_VANILLA;
	open_engine(b, spec, &options);
	assert_true(!which == !b->engine->mtp);
	if (b->engine->mtp) {
		/* bytes predict what the clock measures, whatever the layer's share of so small a model is */
		struct layer_bytes* bytes = &b->engine->mtp_cost.bytes.stored;
		const double scale =
		    0.25 * pass_bytes_all(&b->engine->cost.bytes) / pass_bytes_all(&b->engine->mtp_cost.bytes);
		*bytes = (struct layer_bytes){scale * bytes->attention, scale * bytes->mlp, scale * bytes->head};
		time_drafts(b->engine->mtp);
	}
	open_session(b, &options);
}

/* One generation, after which the layer's cache holds a row for each token of some end of the text but its
 * last ones. */
static struct text* generate_checked(struct bench* b, const struct swiftlet_request* request, int given) {
	struct text* text = generate(b, request, given);
	const struct mtp* m = &b->session->mtp;
	assert_true(!m->cache || (m->cache->pending == 0 && m->start > 0 &&
	                          m->start + m->cache->committed <= PROMPT + text->n + 1));
	return text;
}

/* ---- the same text ------------------------------------------------------------------------ */

static void lossless(const char* spec, bool helps) {
	struct bench plain, bench;
	swiftlet_grammar* grammar = open_grammar();
	int64_t accepted = 0, rows = 0;
	for (int i = 0; i < REQUESTS; i++) {
		struct swiftlet_request request = request_of(i, grammar);
		request.max_tokens = TOKENS / 3;
		for (int given = 0; given < 2; given++) {
			request.n_prompt = given ? PROMPT / 4 : PROMPT;
			open_bench(&plain, spec, 0);
			request.prompt = plain.prompt;
			struct text* expected = generate_checked(&plain, &request, 0);
			close_bench(&plain);
			open_bench(&bench, spec, given ? ~0u : 1u << SOURCE_mtp);
			request.prompt = bench.prompt;
			struct text* text = generate_checked(&bench, &request, given ? 12 : 0);
			same_text(expected, text);
			accepted += text->figures.source[SOURCE_mtp].accepted;
			rows += text->figures.source[SOURCE_mtp].rows;
			if (!given)
				assert_int_equal(text->allocated, 0);
			assert_true(!given || text->releases > 0);
			struct text* again = generate_checked(&bench, &request, 0); /* what was kept of it is a prefix */
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
	*out = generate_checked(&b, &request, 0);
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
