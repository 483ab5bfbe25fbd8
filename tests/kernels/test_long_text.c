/* Behind a text of more chunks than are kept at once, threads share attention: rows have the bits that one
 * thread gives them, with windows and without, alone and beside others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/support_random_model.h"
#include "tests/sanitized.h"

enum { VOCAB = 90, TEXT = 33 * ATTENTION_CHUNK + 77, CONTEXT = TEXT + 50, ROWS = 5 };

/* The logits of a chain of rows behind the text, all in one pass or each in its own. */
static void decode(const struct random_model* m, const char* isa, int threads, bool at_once, float* logits) {
	struct error error;
	const struct backend_options options = {.threads = threads, .isa = isa, .context = CONTEXT};
	struct backend* b = cpu_open(&m->weights, &options, &error);
	struct cache* c = b ? b->cache_open(b, CONTEXT, DTYPE_F16, &error) : NULL;
	if (!c)
		fail_msg("%s", error.message);
	struct random r = {9};
	int32_t token[MAX_ROWS], parent[ROWS] = {-1, 0, 1, 2, 3}, path[ROWS] = {0, 1, 2, 3, 4};
	uint8_t want[MAX_ROWS] = {0};
	struct result out[MAX_ROWS] = {0};
	struct segment s = {.cache = c};
	struct pass pass = {.n_segments = 1,
	                    .segment = &s,
	                    .token = token,
	                    .last = 2 * m->weights.shape.n_blocks,
	                    .tap = -1,
	                    .want = want,
	                    .out = out};
	for (int done = 0; done < TEXT + ROWS; done += pass.n) {
		const bool text = done < TEXT;
		const int most = text ? TEXT - done : at_once ? ROWS : 1;
		pass.kind = text ? PASS_PREFILL : PASS_EXACT;
		pass.n = s.n = most < MAX_ROWS ? most : MAX_ROWS;
		pass.parent = text ? NULL : parent;
		pass.head = !text;
		s.base = c->committed;
		for (int i = 0; i < pass.n; i++) {
			token[i] = random_below(&r, VOCAB);
			want[i] = text ? 0 : WANT_LOGITS;
			out[i].logits = text ? NULL : logits + (size_t)(done - TEXT + i) * VOCAB;
		}
		if (!b->run(b, &pass, &error))
			fail_msg("%s", error.message);
		if (!text)
			b->commit(c, path, pass.n);
	}
	b->cache_close(c);
	b->close(b);
}

static void shared_chunks(void** state) {
	(void)state;
	static const char* const isas[] = {"auto", "avx2"};
	static const int windows[] = {0, 300, TEXT - 100};
	static float alone[ROWS * VOCAB], got[ROWS * VOCAB];
	const enum dtype types[] = {DTYPE_F32};
	struct error error;
	for (int i = 0; i < (SANITIZED ? 1 : 3); i++) {
		struct model_shape shape = random_shape(2, 16, 3, 3, 16, 16, VOCAB);
		shape.sliding_window = windows[i];
		struct random_model* m = random_model_make(&shape, types, 1, windows[i] ? WITH_WINDOW : 0, 3);
		for (int isa = 0; isa < (SANITIZED ? 1 : 2); isa++) {
			if (!cpu_kernels_choose(isas[isa], &error))
				continue;
			decode(m, isas[isa], 1, false, alone);
			for (int threads = 2; threads <= (SANITIZED ? 2 : 4); threads++) {
				decode(m, isas[isa], threads, threads != 3, got);
				assert_memory_equal(alone, got, sizeof got);
			}
		}
		random_model_free(m);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(shared_chunks)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
