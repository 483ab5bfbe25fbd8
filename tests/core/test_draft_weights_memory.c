/* The memory of quantized draft weights: what fits, and what does not. */
#include "core/model/draft_weights_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char MODEL[] = "synth:layers=3,dim=64,heads=2,kv-heads=2,ffn=96,vocab=64,dtype=f16";

static int open_model(void** state) {
	struct error error = {""};
	*state = model_open(MODEL, NULL, &error);
	return *state ? 0 : -1;
}

static int close_model(void** state) {
	model_close(*state);
	return 0;
}

static void too_large_is_refused(void** state) {
	struct draft_weights_memory memory;
	struct error error = {""};
	struct draft_weights_request wish = {.format = {.bits = 4}};
	assert_true(draft_weights_memory_open(&memory, *state, &wish, &error));
	wish.most_bytes = (double)memory.table.bytes - 1;
	draft_weights_memory_close(&memory);
	assert_false(draft_weights_memory_open(&memory, *state, &wish, &error));
	assert_non_null(strstr(error.message, "allowed"));
	draft_weights_memory_close(&memory);
	wish.most_bytes++;
	assert_true(draft_weights_memory_open(&memory, *state, &wish, &error));
	draft_weights_memory_close(&memory);
}

/* Every matrix of the draft weights lies in their memory. */
static void matrices_have_their_place(void** state) {
	struct draft_weights_memory memory;
	struct error error = {""};
	const struct draft_weights_request wish = {.format = {.bits = 4}};
	assert_true(draft_weights_memory_open(&memory, *state, &wish, &error));
	assert_true(memory.table.n_items > 0);
	for (int i = 0; i < memory.table.n_items; i++) {
		const struct draft_weights_item* item = &memory.table.item[i];
		assert_ptr_equal(item->quantized->data, (unsigned char*)memory.data + item->offset);
		assert_true(item->offset + item->bytes <= memory.table.bytes);
	}
	draft_weights_memory_close(&memory);
	assert_null(memory.data);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(too_large_is_refused),
	                                   cmocka_unit_test(matrices_have_their_place)};
	return cmocka_run_group_tests(tests, open_model, close_model);
}
