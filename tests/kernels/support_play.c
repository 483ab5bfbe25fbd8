#include "tests/kernels/support_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/must.h"

/* n rows with logits, of the pass's segments; from a sub-layer on, with some skipped, or from states. */
static void run_segments(struct backend* b, struct pass pass, int n, struct outcome* o, int index) {
	static const int32_t token[] = {3, 141, 59, 26, 53, 58, 97};
	uint8_t want[PLAY_ROWS];
	struct result out[PLAY_ROWS];
	memset(want, WANT_LOGITS | WANT_TOKEN, sizeof want);
	for (int i = 0; i < n; i++)
		out[i].logits = o->logits[index] + (size_t)i * PLAY_VOCAB;
	pass.kind = PASS_EXACT;
	pass.n = n;
	pass.token = token;
	pass.want = want;
	pass.out = out;
	must_run(b, &pass);
	for (int i = 0; i < n; i++)
		o->token[index][i] = out[i].token;
}

/* A tree. */
static void run_rows(struct backend* b, struct cache* cache, struct pass pass, int n, struct outcome* o,
                     int index) {
	static const int32_t parent[] = {-1, 0, 0, 1, 1, 2, 3};
	const struct segment segment = {.cache = cache, .base = cache->committed, .n = n};
	pass.n_segments = 1;
	pass.segment = &segment;
	pass.parent = parent;
	run_segments(b, pass, n, o, index);
}

static void run_two_sequences(struct backend* b, struct cache* first, struct cache* second, struct outcome* o,
                              int index) {
	const struct segment segment[] = {{.cache = first, .base = first->committed, .n = 3},
	                                  {.cache = second, .base = second->committed, .n = 4}};
	const struct pass pass = {
	    .n_segments = 2, .segment = segment, .last = 2 * b->weights->shape.n_blocks, .head = true, .tap = -1};
	run_segments(b, pass, 7, o, index);
	b->discard(first);
	b->discard(second);
}

static void read_prompt(struct backend* b, struct cache* cache) {
	int32_t prompt[20];
	for (int i = 0; i < 20; i++)
		prompt[i] = i * 7 % PLAY_VOCAB;
	cache->prompt_length = 20;
	const struct segment segment = {.cache = cache, .n = 20};
	const struct pass prefill = {.kind = PASS_PREFILL,
	                             .n = 20,
	                             .n_segments = 1,
	                             .segment = &segment,
	                             .token = prompt,
	                             .last = 2 * b->weights->shape.n_blocks,
	                             .tap = -1};
	must_run(b, &prefill);
}

void play(struct backend* b, struct outcome* o) {
	struct error error;
	const int sub_layers = 2 * b->weights->shape.n_blocks;
	struct cache* other = b->cache_open(b, PLAY_CONTEXT, DTYPE_F32, &error);
	struct cache* cache = b->cache_open(b, PLAY_CONTEXT, DTYPE_F16, &error);
	struct cache* second = b->cache_open(b, PLAY_CONTEXT, DTYPE_F16, &error);
	assert_non_null(other);
	assert_non_null(cache);
	assert_non_null(second);
	b->cache_close(other);
	read_prompt(b, cache);
	read_prompt(b, second);
	run_two_sequences(b, cache, second, o, 6);
	b->cache_close(second);
	struct mask skip = {.word = {0}};
	mask_set(&skip, 1, true);
	mask_set(&skip, 2, true);
	const struct pass whole = {.last = sub_layers, .head = true, .tap = -1};
	struct pass pass = whole;
	run_rows(b, cache, pass, 1, o, 4);
	b->discard(cache);
	run_rows(b, cache, pass, PLAY_ROWS, o, 5);
	b->discard(cache);
	pass = whole;
	pass.skip = &skip;
	run_rows(b, cache, pass, PLAY_ROWS, o, 0);
	b->discard(cache);
	pass = whole;
	pass.tap = 2;
	pass.tap_out = o->tapped;
	run_rows(b, cache, pass, PLAY_ROWS, o, 1);
	o->rewound = b->rewind(cache, 3);
	int32_t row[PLAY_ROWS];
	for (int i = 0; i < PLAY_ROWS; i++)
		row[i] = i;
	pass = whole;
	pass.first = 3;
	pass.row = row;
	run_rows(b, cache, pass, PLAY_ROWS, o, 2);
	const int32_t path[] = {0, 1, 3};
	b->commit(cache, path, 3);
	pass = whole;
	pass.first = 3;
	pass.state = o->tapped;
	run_rows(b, cache, pass, PLAY_ROWS, o, 3);
	b->discard(cache);
	b->truncate(cache, 21);
	o->committed = cache->committed;
	b->cache_close(cache);
}
