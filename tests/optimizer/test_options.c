/* Options by name: what is refused, and that a value that was read can be set again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/decode/engine.h"
#include "core/decode/options.h"

static int set_option(swiftlet_options* options, const char* name, const char* value) {
	char message[512] = "";
	const int result = swiftlet_options_set(options, name, value, message, sizeof message);
	assert_int_equal(message[0] != 0, result < 0);
	return result;
}

/* A value is one word of the list, no piece of it, which would not fit the field either. */
static void lists_are_no_values(void** state) {
	(void)state;
	swiftlet_options* const options = swiftlet_options_new();
	assert_non_null(options);
	for (int i = 0; i < n_options; i++) {
		const struct option* const option = &option_table[i];
		if (option->words && strpbrk(option->words, " =") && option->type != TAKES_PATH &&
		    option->type != OPTION_HEADING && option->type != TAKES_OWN)
			assert_int_equal(set_option(options, option->name, option->words), -1);
	}
	assert_int_equal(set_option(options, "isa", "reference avx2 avx-vnni avx512 neon dotprod i8mm"), -1);
	assert_int_equal(set_option(options, "cache-type", "auto f16"), -1);
	assert_int_equal(set_option(options, "draft-bits", "auto=-1"), -1);
	assert_int_equal(set_option(options, "isa", ""), -1);
	assert_int_equal(set_option(options, "isa", "avx2"), 1);
	assert_int_equal(set_option(options, "no-such-option", "1"), 0);
	swiftlet_options_free(options);
}

static void seeds_are_whole(void** state) {
	(void)state;
	static const char* const wrong[] = {" -5", "-5", "+5", " 5", "5x", "", "18446744073709551616"};
	swiftlet_options* const options = swiftlet_options_new();
	assert_non_null(options);
	char text[64];
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(set_option(options, "seed", wrong[i]), -1);
	assert_int_equal(set_option(options, "seed", "18446744073709551615"), 1);
	assert_true(swiftlet_options_get(options, "seed", text, sizeof text));
	assert_string_equal(text, "18446744073709551615");
	swiftlet_options_free(options);
}

static void what_is_read_can_be_set(void** state) {
	(void)state;
	static const char* const unset[] = {"", "0", "-1"};
	swiftlet_options* const options = swiftlet_options_new();
	assert_non_null(options);
	int values = 0;
	for (int i = 0; i < n_options; i++) {
		char text[4096], again[4096];
		if (option_table[i].type == OPTION_HEADING ||
		    !swiftlet_options_get(options, option_table[i].name, text, sizeof text))
			continue;
		if (set_option(options, option_table[i].name, text) != 1) {
			bool known = false;
			for (size_t k = 0; k < sizeof unset / sizeof *unset; k++)
				known = known || strcmp(text, unset[k]) == 0;
			assert_true(known);
			continue;
		}
		assert_true(swiftlet_options_get(options, option_table[i].name, again, sizeof again));
		assert_string_equal(again, text);
		values++;
	}
	assert_true(values > 20);
	swiftlet_options_free(options);
}

/* Without --context it is the model's own, as far as half of the free memory goes. */
static void the_context_is_the_models_or_what_fits(void** state) {
	(void)state;
	struct swiftlet_options options;
	options_default(&options);
	/* 2 · 4 · 64 · 2 bytes a token and block: 10,000 tokens take 2 · 10,240,000 bytes */
	struct model model = {
	    .dtype = DTYPE_F16,
	    .memory_left = 4.0 * 10240000,
	    .weights.shape = {.n_blocks = 2, .heads = 4, .kv_heads = 4, .head_dim = 64, .context = 10000}};
	assert_int_equal(options_context(&options, &model), 10000);
	model.weights.shape.context = 10001;
	assert_int_equal(options_context(&options, &model), 9 * 1024);
	model.memory_left = 0; /* unknown, or none */
	assert_int_equal(options_context(&options, &model), 4096);
	model.weights.shape.context = 2048;
	assert_int_equal(options_context(&options, &model), 2048);
	model.weights.shape.context = 0;
	assert_int_equal(options_context(&options, &model), 4096);
	options.cache.context = 100000;
	assert_int_equal(options_context(&options, &model), 100000);
	assert_int_equal(options_cache_type(&options, &model), DTYPE_F16);
	model.dtype = DTYPE_F32;
	assert_int_equal(options_cache_type(&options, &model), DTYPE_F32);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_context_is_the_models_or_what_fits), cmocka_unit_test(lists_are_no_values),
	    cmocka_unit_test(seeds_are_whole), cmocka_unit_test(what_is_read_can_be_set)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
