/* Whole sessions on the GPU: the device verifies trees whose rows the host made, from an expected text, from
 * earlier text and from recycled logits, beside what its own draft loop brought, with and without quantized
 * draft weights; and the text is plain decoding's, greedy and sampled, and keeps a grammar where it has to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/decode/engine.h"
#include "core/decode/options.h"
#include "core/draft/drafter.h"
#include "kernels/backend.h"
#include "tests/must.h"
#include "tests/must_session.h"

enum { TOKENS = 40, MOST_PROMPT = 300 };
static int prompt_tokens = 12;

struct text {
	int32_t token[TOKENS];
	int n, from[SWIFTLET_SOURCES];
	char bytes[16 * TOKENS];
	struct swiftlet_figures figures;
};

/* Every look at the clock takes a millisecond: a pass of many rows costs what one of a single row does. */
static double tick(void* user) { return *(double*)user += 1e-3; }

static bool keep(void* user, const struct swiftlet_step* step) {
	struct text* text = user;
	const size_t used = strlen(text->bytes);
	assert_true(used + step->text_size < sizeof text->bytes);
	memcpy(text->bytes + used, step->text, step->text_size);
	for (int i = 0; i < step->n; i++) {
		text->token[text->n++] = step->token[i].id;
		if (step->token[i].drafted)
			text->from[step->token[i].source]++;
	}
	return true;
}

static struct swiftlet_options options_of(double* now, unsigned sources) {
	struct swiftlet_options o;
	options_default(&o);
	snprintf(o.engine.backend, sizeof o.engine.backend, "cuda");
	o.cache.context = prompt_tokens + TOKENS;
	o.learning.search = false;
	o.drafting.drafters = sources;
	o.draft_weights.bits = 0;
	o.clock = tick;
	o.clock_user = now;
	return o;
}

static struct text generate_constrained(swiftlet_session* session, const struct swiftlet_options* o,
                                        double temperature, const struct text* expected,
                                        const swiftlet_grammar* grammar) {
	struct text text = {.n = 0};
	struct swiftlet_request request;
	char message[512];
	int32_t prompt[MOST_PROMPT];
	for (int i = 0; i < prompt_tokens; i++)
		prompt[i] = (i * 37 + 5) % 512;
	swiftlet_request_default(&request, o);
	request.prompt = prompt;
	request.n_prompt = prompt_tokens;
	request.max_tokens = TOKENS;
	request.temperature = temperature;
	request.seed = 3;
	request.grammar = grammar;
	if (expected) {
		request.expected = expected->token;
		request.n_expected = expected->n;
	}
	if (!swiftlet_session_generate(session, &request, keep, &text, &text.figures, message, sizeof message))
		fail_msg("%s", message);
	return text;
}

static struct text generate(swiftlet_session* session, const struct swiftlet_options* o, double temperature,
                            const struct text* expected) {
	return generate_constrained(session, o, temperature, expected, NULL);
}

struct place {
	swiftlet_model* model;
	swiftlet_engine* engine;
	double now;
};

/* Weights in the host's memory, so that draft weights can be made from them. */
static struct place open_place(int draft_bits, int devices) {
	struct place p = {.now = 0};
	struct swiftlet_options o = options_of(&p.now, 0);
	o.draft_weights.bits = draft_bits;
	o.engine.devices = devices;
	o.clock = NULL;
	p.model = must_open_model("synth:layers=3,dim=64,heads=2,ffn=96,vocab=512", NULL);
	p.engine = must_open_engine(p.model, &o);
	assert_int_equal(strncmp(swiftlet_engine_name(p.engine), "cuda", 4), 0);
	return p;
}

static void close_place(struct place* p) {
	swiftlet_engine_close(p->engine);
	swiftlet_model_close(p->model);
}

static swiftlet_session* session_of(struct place* p, const struct swiftlet_options* o) {
	return must_open_session(p->engine, o);
}

static struct text plain_text(struct place* p, double temperature) {
	struct swiftlet_options o = options_of(&p->now, 0);
	o.drafting.method = SWIFTLET_VANILLA;
	swiftlet_session* s = session_of(p, &o);
	const struct text text = generate(s, &o, temperature, NULL);
	swiftlet_session_close(s);
	assert_int_equal(text.n, TOKENS);
	return text;
}

static void same(const struct text* a, const struct text* b) {
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->token, b->token, sizeof a->token);
}

static void candidates_are_rows_of_the_devices_verify(void** state) {
	(void)state;
	struct place p = open_place(0, 0);
	for (int sampled = 0; sampled < 2; sampled++) {
		const double temperature = sampled ? 0.9 : 0;
		const struct text plain = plain_text(&p, temperature);
		struct swiftlet_options o =
		    options_of(&p.now, 1u << SOURCE_prediction | 1u << SOURCE_retrieval | 1u << SOURCE_recycle);
		swiftlet_session* s = session_of(&p, &o);
		const struct text first = generate(s, &o, temperature, &plain);
		const struct text again = generate(s, &o, temperature, NULL); /* the text is in the index now */
		same(&plain, &first);
		same(&plain, &again);
		assert_true(first.from[SOURCE_prediction] > 0 && first.figures.verify_passes > 0);
		assert_true(again.from[SOURCE_retrieval] + again.from[SOURCE_recycle] > 0);
		assert_true(first.figures.full_passes < plain.figures.full_passes);
		swiftlet_session_close(s);
	}
	close_place(&p);
}

/* The model's own drafts come from the device's loop, by the draft weights where there are some; over two
 * devices they are the host's, a pass a step. */
static void beside_the_devices_own_drafts(void** state) {
	(void)state;
	for (int way = 0; way < 3; way++) {
		const int bits = way ? 4 : 0;
		if (way == 2)
			setenv("EMULATED_DEVICES", "2", 1);
		struct place p = open_place(bits, way == 2 ? 2 : 0);
		const struct text plain = plain_text(&p, 0);
		struct swiftlet_options o = options_of(&p.now, 1u << SOURCE_mask | 1u << SOURCE_recycle);
		o.draft_weights.bits = bits;
		o.learning.search = bits == 0;
		swiftlet_session* s = session_of(&p, &o);
		const struct text first = generate(s, &o, 0, NULL), again = generate(s, &o, 0, NULL);
		same(&plain, &first);
		same(&plain, &again);
		assert_true(bits == 0 || first.figures.draft_steps + again.figures.draft_steps > 0);
		swiftlet_session_close(s);
		close_place(&p);
	}
	unsetenv("EMULATED_DEVICES");
}

/* The loop of a backend, which looks at what it is asked for. */
static int (*loop)(struct backend*, const struct segment*, int32_t, const struct mask*, const struct mask*,
                   bool, const struct levels*, const struct draft_policy*, struct result*, struct error*);
static int loops_with_list;
static int look_at_loop(struct backend* b, const struct segment* segment, int32_t token,
                        const struct mask* skip, const struct mask* quantized, bool quantized_head,
                        const struct levels* levels, const struct draft_policy* policy, struct result* out,
                        struct error* error) {
	assert_false(segment->noted);
	loops_with_list += segment->pages != NULL;
	return loop(b, segment, token, skip, quantized, quantized_head, levels, policy, out, error);
}

/* Drafts of a long text read the pages of a list, and the loop does. */
static void drafts_read_pages(void** state) {
	(void)state;
	prompt_tokens = MOST_PROMPT;
	struct place p = open_place(4, 0);
	struct backend* b = p.engine->backend;
	loop = b->draft;
	b->draft = look_at_loop;
	const struct text plain = plain_text(&p, 0);
	for (int pages = 0; pages <= 1; pages++) {
		struct swiftlet_options o = options_of(&p.now, 1u << SOURCE_mask);
		o.draft_weights.bits = 4;
		o.drafting.pages = pages;
		swiftlet_session* s = session_of(&p, &o);
		const struct text first = generate(s, &o, 0, NULL), again = generate(s, &o, 0, NULL);
		same(&plain, &first);
		same(&plain, &again);
		assert_int_equal(loops_with_list > 0, pages > 0);
		swiftlet_session_close(s);
	}
	close_place(&p);
	prompt_tokens = 12;
}

/* The constraints of rows lie on the host; rows are the device's, and so is the loop that drafts, which is
 * free to be wrong. */
static void a_constraint_is_kept(void** state) {
	(void)state;
	static const char form[] = "([0-9]{3}-[xyz]{2};)+";
	char message[512];
	swiftlet_grammar* grammar = swiftlet_grammar_regex(form, sizeof form - 1, message, sizeof message);
	if (!grammar)
		fail_msg("%s", message);
	struct place p = open_place(0, 0);
	for (int sampled = 0; sampled < 2; sampled++) {
		const double temperature = sampled ? 1.2 : 0;
		struct swiftlet_options vanilla = options_of(&p.now, 0);
		vanilla.drafting.method = SWIFTLET_VANILLA;
		swiftlet_session* s = session_of(&p, &vanilla);
		const struct text plain = generate_constrained(s, &vanilla, temperature, NULL, grammar);
		swiftlet_session_close(s);
		for (size_t i = 0; plain.bytes[i]; i++) {
			static const char* const kinds[] = {"0123456789", "-", "xyz", ";"};
			const int at = "0001223"[i % 7] - '0';
			if (!strchr(kinds[at], plain.bytes[i]))
				fail_msg("\"%s\" is not of the form", plain.bytes);
		}
		assert_true(strlen(plain.bytes) >= 8);
		struct swiftlet_options o = options_of(&p.now, 1u << SOURCE_mask | 1u << SOURCE_retrieval |
		                                                   1u << SOURCE_recycle | 1u << SOURCE_form);
		s = session_of(&p, &o);
		const struct text first = generate_constrained(s, &o, temperature, NULL, grammar);
		const struct text again = generate_constrained(s, &o, temperature, NULL, grammar);
		same(&plain, &first);
		same(&plain, &again);
		assert_string_equal(plain.bytes, again.bytes);
		assert_true(again.figures.verify_passes > 0 && again.figures.accepted > 0);
		swiftlet_session_close(s);
	}
	close_place(&p);
	swiftlet_grammar_free(grammar);
}

int main(void) {
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test(candidates_are_rows_of_the_devices_verify),
	                                   cmocka_unit_test(beside_the_devices_own_drafts),
	                                   cmocka_unit_test(drafts_read_pages),
	                                   cmocka_unit_test(a_constraint_is_kept)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
