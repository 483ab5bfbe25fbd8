/* Once its drafters are open a sequence allocates nothing: every call of malloc and its kin is counted over
 * rounds, texts that come and go, pools that turn over and predictions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/draft/retrieval.h"
#include "tests/core/support_rounds.h"
#include "tests/count_allocations.h"

#if !ALLOCATIONS_COUNTED
int main(void) { return allocations_not_counted(); }
#else

enum { TEXT = 1200 };

static void nothing_allocated(void** state) {
	(void)state;
	static struct rounds r;
	static int32_t text[TEXT];
	for (int i = 0; i < TEXT; i++)
		text[i] = i > 100 && i % 50 ? text[i - 97] : rand() % 40;
	struct retrieval_pool* pool = retrieval_pool_open(3000);
	rounds_open(&r, "prediction,retrieval,recycle", TEXT, 40, 0.01, 1);
	retrieval_use_pool(r.set.state[SOURCE_retrieval], pool);
	r.expected = text + 300;
	r.n_expected = 500;
	assert_true(allocations_are_seen());
	const int before = atomic_load(&allocations);
	for (int i = 0; i < 6; i++) {
		rounds_run(&r, text, 10 + i, TEXT);
		retrieval_pool_add(pool, text, TEXT);
		drafter_set_begin(&r.set, &(struct drafter_text){.prompt = text, .n_prompt = TEXT / 2});
	}
	assert_int_equal(atomic_load(&allocations) - before, 0);
	assert_true(r.rows > 3 * r.passes); /* there were trees */
	rounds_close(&r);
	retrieval_pool_close(pool);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_allocated)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
