/* The memory of a low-bit copy: what fits, and what does not. */
#include "core/model/low_copy.h"

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
	struct low_copy copy;
	struct error error = {""};
	struct low_wish wish = {.form = {.bits = 4}};
	assert_true(low_copy_open(&copy, *state, &wish, &error));
	wish.most_bytes = (double)copy.table.bytes - 1;
	low_copy_close(&copy);
	assert_false(low_copy_open(&copy, *state, &wish, &error));
	assert_non_null(strstr(error.message, "allowed"));
	low_copy_close(&copy);
	wish.most_bytes++;
	assert_true(low_copy_open(&copy, *state, &wish, &error));
	low_copy_close(&copy);
}

/* Every matrix of the copy lies in its memory. */
static void matrices_have_their_place(void** state) {
	struct low_copy copy;
	struct error error = {""};
	const struct low_wish wish = {.form = {.bits = 4}};
	assert_true(low_copy_open(&copy, *state, &wish, &error));
	assert_true(copy.table.n_items > 0);
	for (int i = 0; i < copy.table.n_items; i++) {
		const struct low_item* item = &copy.table.item[i];
		assert_ptr_equal(item->copy->data, (unsigned char*)copy.memory + item->offset);
		assert_true(item->offset + item->bytes <= copy.table.bytes);
	}
	low_copy_close(&copy);
	assert_null(copy.memory);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(too_large_is_refused),
	                                   cmocka_unit_test(matrices_have_their_place)};
	return cmocka_run_group_tests(tests, open_model, close_model);
}
