/* A trained part given to `auto`, with an injected clock: an adapter that is right drafts soon and goes on,
 * one that never is costs no more than the drafting account allows; adapter and heads get their turns on a
 * real model, whose text stays plain decoding's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "tests/optimizer/support_fake.h"

static bool never(struct fake* fake, int position, float* probability) {
	(void)fake, (void)position;
	*probability = 0.9f;
	return false;
}

static bool nearly_always(struct fake* fake, int position, float* probability) {
	(void)position;
	*probability = 0.95f;
	return fake_random(fake) % 16 != 0;
}

/* The part is right before a text's first 2,000 tokens are over, and never after. */
static bool tires(struct fake* fake, int position, float* probability) {
	return position < 2000 ? nearly_always(fake, position, probability) : never(fake, position, probability);
}

struct run {
	double rate, slowdown; /* tokens over plain steps; at the worst of all moments after 512 tokens */
	double worst;          /* least balance over the floor */
};

/* An adapter behind block 4 of 24 beside a mask that never drafts right. */
static struct run run(bool (*right)(struct fake*, int, float*), int tokens) {
	static struct fake fake, side;
	struct swiftlet_options options;
	char message[256];
	struct run result = {0, 0, INFINITY};
	struct swiftlet_step step;
	struct swiftlet_request request;
	const int32_t prompt[] = {1, 2, 3};
	fake_open(&fake, never, 0.55, 0.05);
	fake_open(&side, right, 0.55, 0.05);
	fake.engine.side = &side.backend;
	fake.engine.adapter.exit_block = 4;
	swiftlet_options_default(&options);
	options.reuse = false;
	options.drafters = 1u << SOURCE_mask;
	struct session* s = fake_session(&fake, &options);
	assert_non_null(s);
	swiftlet_request_default(&request, &options);
	request.prompt = prompt;
	request.n_prompt = 3;
	request.max_tokens = tokens;
	assert_true(swiftlet_session_start(s, &request, message, sizeof message));
	double start = 0;
	int n = 0;
	do {
		assert_true(swiftlet_session_step(s, &step, message, sizeof message));
		for (int i = 0; i < step.n; i++, n++)
			assert_int_equal(step.token[i].id, fake_truth(3 + n));
		if (n == 1)
			start = fake.now;
		result.worst = fmin(result.worst, s->ledger.balance - ledger_floor(&s->ledger));
		if (n > 512)
			result.slowdown = fmax(result.slowdown, (fake.now - start) / (n - 1));
		assert_true(side.cache.committed + s->method->n_behind <= s->cache->committed);
	} while (step.stop == SWIFTLET_RUNNING);
	result.rate = (n - 1) / (fake.now - start);
	assert_true(s->method->drafted > 0);
	swiftlet_session_close(s);
	fake_close(&fake);
	fake_close(&side);
	return result;
}

static void what_pays_drafts(void** state) {
	(void)state;
	const struct run r = run(nearly_always, 3000);
	if (r.rate < 1.5)
		fail_msg("%.2f tokens a plain step, expected 1.5 at least", r.rate);
}

static void what_does_not_rests(void** state) {
	(void)state;
	bool (*const right[])(struct fake*, int, float*) = {never, tires};
	for (int i = 0; i < 2; i++) {
		const struct run r = run(right[i], 6000);
		if (r.slowdown > 1.02 || r.worst < -1e-3)
			fail_msg("%d: %.3f plain steps a token, %.2f over the floor", i, r.slowdown, r.worst);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_pays_drafts),
	    cmocka_unit_test(what_does_not_rests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
