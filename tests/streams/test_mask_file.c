/* Mask files: round trips in both formats, every refusal with its words, choosing and fitting. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "streams/mask_file.h"

static struct mask_entry sample(const char* task) {
	struct mask_entry entry;
	mask_entry_start(&entry);
	strcpy(entry.model, "tiny");
	strcpy(entry.fingerprint, "0123456789abcdef");
	strcpy(entry.task, task);
	entry.blocks = 20;
	for (int b = 1; b < 18; b += 3) {
		mask_set(&entry.mask, 2 * b, true);
		mask_set(&entry.mask, 2 * b + 3, true);
	}
	entry.matchness = 0.8125;
	entry.alpha = 0.9;
	entry.skip_ratio = 0.45;
	entry.tokens_served = 123456789;
	return entry;
}

static void ours_round_trips(void** state) {
	(void)state;
	const struct mask_entry entry[2] = {sample("math"), sample("code \"x\"")};
	for (int n = 1; n <= 2; n++) {
		struct error error;
		struct mask_list list = {0};
		char* const text = mask_text(entry, n, MASK_FORMAT_SWIFTLET, &error);
		assert_non_null(text);
		assert_int_equal(text[0], n == 1 ? '{' : '[');
		assert_true(mask_text_read(text, strlen(text), "test", &list, &error));
		assert_int_equal(list.n, n);
		for (int i = 0; i < n; i++) {
			const struct mask_entry* const read = &list.entry[i];
			assert_true(mask_equal(&read->mask, &entry[i].mask));
			assert_string_equal(read->model, entry[i].model);
			assert_string_equal(read->fingerprint, entry[i].fingerprint);
			assert_string_equal(read->task, entry[i].task);
			assert_int_equal(read->blocks, 20);
			assert_true(read->matchness == entry[i].matchness && read->alpha == entry[i].alpha);
			assert_true(isnan(read->mean_generated));
			assert_int_equal(read->tokens_served, 123456789);
		}
		mask_list_free(&list);
		free(text);
	}
}

/* Levels come back to the per cent; the published format has what is skipped alone. */
static void levels_round_trip(void** state) {
	(void)state;
	struct error error;
	struct mask_list list = {0};
	struct mask_entry entry = sample("math");
	entry.mask.has_levels = true;
	for (int i = 0; i < LEVEL_DEPTHS * COLUMN_KINDS; i++)
		entry.mask.levels.left_out[i / COLUMN_KINDS][i % COLUMN_KINDS] = (uint8_t)(9 * i);
	char* const text = mask_text(&entry, 1, MASK_FORMAT_SWIFTLET, &error);
	assert_non_null(strstr(text, "swiftlet-mask-2"));
	assert_non_null(strstr(text, "\"levels\":{\"attention\":[1,0.64,0.28],\"attention_output\":[0.91,"));
	assert_true(mask_text_read(text, strlen(text), "test", &list, &error));
	assert_true(mask_equal(&list.entry[0].mask, &entry.mask));
	free(text);
	/* earlier versions wrote another member, which is passed over */
	static const char earlier[] =
	    "{\"format\": \"swiftlet-mask-2\", \"attention\": [1], \"mlp\": [], \"stored\": "
	    "{\"attention\": [0], \"mlp\": [], \"head\": true}}";
	assert_true(mask_text_read(earlier, strlen(earlier), "test", &list, &error));
	assert_int_equal(mask_count(&list.entry[1].mask), 1);
	char* const published = mask_text(&entry, 1, MASK_FORMAT_SKIP_LAYERS, &error);
	assert_null(strstr(published, "levels"));
	free(published);
	mask_list_free(&list);
}

static void skip_layers_round_trips(void** state) {
	(void)state;
	static const char text[] = "{\"llama-2-13b_cnn_dm\": {\"attention\": [5, 3, 17], \"mlp\": []},\n"
	                           " \"b\": {\"attention\": [], \"mlp\": [1]}}";
	struct error error;
	struct mask_list list = {0};
	assert_true(mask_text_read(text, strlen(text), "test", &list, &error));
	assert_int_equal(list.n, 2);
	assert_string_equal(list.entry[0].key, "llama-2-13b_cnn_dm");
	assert_string_equal(list.entry[0].model, "");
	int blocks[MAX_BLOCKS];
	assert_int_equal(mask_blocks(&list.entry[0].mask, 0, blocks), 3);
	assert_true(blocks[0] == 3 && blocks[1] == 5 && blocks[2] == 17);
	char* const written = mask_text(list.entry, 2, MASK_FORMAT_SKIP_LAYERS, &error);
	assert_string_equal(written, "{\"llama-2-13b_cnn_dm\":{\"attention\":[3,5,17],\"mlp\":[]},"
	                             "\"b\":{\"attention\":[],\"mlp\":[1]}}\n");
	free(written);
	mask_list_free(&list);
	const struct mask_entry entry = sample("math");
	char* const named = mask_text(&entry, 1, MASK_FORMAT_SKIP_LAYERS, &error);
	assert_non_null(strstr(named, "{\"tiny_math\":{"));
	free(named);
	const struct mask_entry twice[2] = {entry, entry};
	assert_null(mask_text(twice, 2, MASK_FORMAT_SKIP_LAYERS, &error));
	assert_non_null(strstr(error.message, "tiny_math"));
}

static void a_key_may_be_named_format(void** state) {
	(void)state;
	struct error error;
	struct mask_list list = {0};
	struct mask_entry entry = sample("");
	strcpy(entry.model, "format");
	char* const text = mask_text(&entry, 1, MASK_FORMAT_SKIP_LAYERS, &error);
	assert_non_null(text);
	assert_true(mask_text_read(text, strlen(text), "test", &list, &error));
	assert_int_equal(list.n, 1);
	assert_string_equal(list.entry[0].key, "format");
	assert_true(mask_equal(&list.entry[0].mask, &entry.mask));
	mask_list_free(&list);
	free(text);
}

struct refusal {
	const char* text;
	const char* message;
};

static void refuses_with_the_reason(void** state) {
	(void)state;
#define OURS "\"format\": \"swiftlet-mask-1\", "
#define STATES "\"format\": \"swiftlet-mask-2\", \"attention\": [1], \"mlp\": []"
#define LEVELS(last)                                                                                         \
	"{\"attention\": [1, 1, 1], \"attention_output\": [1, 1, 1], \"mlp\": [1, 1, 1], \"down\": [" last "]}"
	static const struct refusal refusal[] = {
	    {"", "not JSON"},
	    {"{", "not JSON"},
	    {"{}", "the file holds no mask"},
	    {"3", "the file holds no mask"},
	    {"[]", "the file holds no mask"},
	    {"{\"format\": \"other\"}", "\"format\" is \"other\""},
	    {"[{}]", "\"format\" is \"\""},
	    {"{" OURS "\"mlp\": []}", "\"attention\" is missing"},
	    {"{" OURS "\"attention\": 1, \"mlp\": []}", "\"attention\" is not a list"},
	    {"{" OURS "\"attention\": [-1], \"mlp\": []}", "holds -1, expected blocks from 0 to 255"},
	    {"{" OURS "\"attention\": [256], \"mlp\": []}", "holds 256"},
	    {"{" OURS "\"attention\": [1.5], \"mlp\": []}", "holds 1.5"},
	    {"{" OURS "\"attention\": [1e300], \"mlp\": []}", "holds 1"},
	    {"{" OURS "\"attention\": [\"1\"], \"mlp\": []}", "holds \"1\""},
	    {"{" OURS "\"attention\": [], \"mlp\": [4, 4]}", "\"mlp\" holds block 4 twice"},
	    {"{" OURS "\"blocks\": 4, \"attention\": [], \"mlp\": [4]}", "holds 4, expected blocks from 0 to 3"},
	    {"{" OURS "\"blocks\": 4.5, \"attention\": [], \"mlp\": []}", "\"blocks\" is 4.5"},
	    {"{" OURS "\"blocks\": 0, \"attention\": [], \"mlp\": []}", "\"blocks\" is out of range"},
	    {"{" OURS "\"model\": 4, \"attention\": [], \"mlp\": []}", "\"model\" is not a string"},
	    {"{" OURS "\"matchness\": 1.5, \"attention\": [], \"mlp\": []}", "\"matchness\" is out of range"},
	    {"{" OURS "\"tokens_served\": -1, \"attention\": [], \"mlp\": []}",
	     "\"tokens_served\" is out of range"},
	    {"{" STATES "}", "\"levels\" is missing"},
	    {"{" STATES ", \"levels\": 1}", "\"levels\" is missing or has another form"},
	    {"{" STATES ", \"levels\": " LEVELS("1, 1") "}", "\"levels\" is missing or has another form"},
	    {"{" STATES ", \"levels\": " LEVELS("1, 1, 1, 1") "}", "\"levels\" is missing or has another form"},
	    {"{" STATES ", \"levels\": " LEVELS("0, 1, 1") "}", "three shares from 0.01 to 1"},
	    {"{" STATES ", \"levels\": " LEVELS("1, 1.1, 1") "}", "\"levels\" is missing or has another form"},
	    {"{" STATES ", \"levels\": " LEVELS("1, 1, null") "}", "\"levels\" is missing or has another form"},
	    {"{\"format\": \"swiftlet-mask-3\"}", "expected \"swiftlet-mask-1\" or \"swiftlet-mask-2\""},
	    {"{\"a_b\": 1}", "\"a_b\" is not an object"},
	    {"{\"a_b\": {\"attention\": []}}", "\"mlp\" is missing"},
	};
#undef OURS
#undef STATES
#undef LEVELS
	for (size_t i = 0; i < sizeof refusal / sizeof *refusal; i++) {
		struct error error = {{0}};
		struct mask_list list = {0};
		assert_false(mask_text_read(refusal[i].text, strlen(refusal[i].text), "FILE", &list, &error));
		if (!strstr(error.message, refusal[i].message) || strncmp(error.message, "FILE: ", 6) != 0)
			fail_msg("%s: %s", refusal[i].text, error.message);
		assert_int_equal(list.n, 0);
		mask_list_free(&list);
	}
}

static void picks_one(void** state) {
	(void)state;
	struct mask_list list = {0};
	struct error error;
	struct mask_entry entry = sample("math");
	assert_true(mask_list_append(&list, &entry));
	assert_ptr_equal(mask_list_pick(&list, NULL, "other", "f", &error), &list.entry[0]);
	entry = sample("code");
	strcpy(entry.fingerprint, "f00d");
	assert_true(mask_list_append(&list, &entry));
	assert_ptr_equal(mask_list_pick(&list, "code", NULL, "f", &error), &list.entry[1]);
	assert_ptr_equal(mask_list_pick(&list, "tiny_math", NULL, "f", &error), &list.entry[0]);
	assert_ptr_equal(mask_list_pick(&list, NULL, "f00d", "f", &error), &list.entry[1]);
	assert_null(mask_list_pick(&list, "story", NULL, "f", &error));
	assert_non_null(strstr(error.message, "tiny_math, tiny_code"));
	assert_null(mask_list_pick(&list, NULL, "else", "f", &error));
	mask_list_free(&list);
}

static void fits_its_model_alone(void** state) {
	(void)state;
	struct error error;
	struct mask_entry entry = sample("math");
	assert_true(mask_entry_fits(&entry, 20, entry.fingerprint, false, "f", &error));
	assert_false(mask_entry_fits(&entry, 20, "f00d", false, "f", &error));
	assert_non_null(strstr(error.message, "another model"));
	assert_true(mask_entry_fits(&entry, 20, "f00d", true, "f", &error));
	assert_false(mask_entry_fits(&entry, 22, entry.fingerprint, false, "f", &error));
	assert_true(mask_entry_fits(&entry, 22, entry.fingerprint, true, "f", &error));
	/* a block beyond, the first and the last are refused whatever is forced */
	assert_false(mask_entry_fits(&entry, 10, entry.fingerprint, true, "f", &error));
	assert_non_null(strstr(error.message, "holds block"));
	mask_set(&entry.mask, 2 * 19 + 1, true);
	assert_false(mask_entry_fits(&entry, 20, entry.fingerprint, true, "f", &error));
	mask_set(&entry.mask, 2 * 19 + 1, false);
	mask_set(&entry.mask, 0, true);
	assert_false(mask_entry_fits(&entry, 20, entry.fingerprint, true, "f", &error));
}

static void a_failed_write_leaves_the_file(void** state) {
	(void)state;
	char path[] = "/tmp/swiftlet-mask-XXXXXX";
	const int file = mkstemp(path);
	assert_true(file >= 0);
	close(file);
	struct error error;
	struct mask_list list = {0};
	const struct mask_entry entry = sample("math");
	assert_true(mask_file_write(path, &entry, 1, MASK_FORMAT_SWIFTLET, &error));
	const struct mask_entry twice[2] = {entry, entry};
	assert_false(mask_file_write(path, twice, 2, MASK_FORMAT_SKIP_LAYERS, &error));
	assert_true(mask_file_read(path, &list, &error));
	assert_int_equal(list.n, 1);
	mask_list_free(&list);
	unlink(path);
	assert_false(mask_file_read(path, &list, &error));
	assert_false(mask_file_write("/nowhere/at/all", &entry, 1, MASK_FORMAT_SWIFTLET, &error));
	assert_non_null(strstr(error.message, "could not be written"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ours_round_trips),        cmocka_unit_test(levels_round_trip),
	    cmocka_unit_test(skip_layers_round_trips), cmocka_unit_test(a_key_may_be_named_format),
	    cmocka_unit_test(refuses_with_the_reason), cmocka_unit_test(picks_one),
	    cmocka_unit_test(fits_its_model_alone),    cmocka_unit_test(a_failed_write_leaves_the_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
