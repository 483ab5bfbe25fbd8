/* Once its drafters are open a sequence allocates nothing: every call of malloc and its kin is counted over
 * rounds, texts that come and go, pools that turn over and predictions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/draft/retrieval.h"
#include "tests/core/support_rounds.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
int main(void) {
	puts("skipped: the allocator cannot be counted here (a sanitizer or another C library has it)");
	return 77;
}
#else

/* The C library's own calls come here too. */
#define VISIBLE __attribute__((visibility("default")))

static atomic_int calls;

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void __libc_free(void*);

VISIBLE void* malloc(size_t bytes) {
	atomic_fetch_add(&calls, 1);
	return __libc_malloc(bytes);
}
VISIBLE void* calloc(size_t n, size_t bytes) {
	atomic_fetch_add(&calls, 1);
	return __libc_calloc(n, bytes);
}
VISIBLE void* realloc(void* p, size_t bytes) {
	atomic_fetch_add(&calls, 1);
	return __libc_realloc(p, bytes);
}
VISIBLE void free(void* p) {
	if (p)
		atomic_fetch_add(&calls, 1);
	__libc_free(p);
}

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
	const int before = atomic_load(&calls);
	for (int i = 0; i < 6; i++) {
		rounds_run(&r, text, 10 + i, TEXT);
		retrieval_pool_add(pool, text, TEXT);
		drafter_set_forget(&r.set, TEXT / 2);
	}
	assert_int_equal(atomic_load(&calls) - before, 0);
	assert_true(r.rows > 3 * r.passes); /* there were trees */
	rounds_close(&r);
	retrieval_pool_close(pool);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_allocated)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
