/* tekken.json against tiktoken (golden/tekken, from tools/oracle/tekken.py), and broken ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/files/json.h"
#include "core/text/tokenizer.h"

static struct tokenizer* open_golden(void) {
	char folder[1024];
	struct error error = {""};
	snprintf(folder, sizeof folder, "%s/tests/core/golden/tekken", getenv("SWIFTLET_SOURCE"));
	struct tokenizer* t = tokenizer_open_folder(folder, 0, &error);
	if (!t)
		fail_msg("%s", error.message);
	return t;
}

static void check_line(const struct tokenizer* t, const char* text, const cJSON* wanted) {
	struct token_list ids = {0};
	size_t size;
	assert_true(tokenizer_encode(t, text, strlen(text), 0, &ids));
	if (ids.n != cJSON_GetArraySize(wanted))
		fail_msg("\"%s\": %d ids, expected %d", text, ids.n, cJSON_GetArraySize(wanted));
	for (int i = 0; i < ids.n; i++)
		if (ids.id[i] != (int32_t)cJSON_GetArrayItem(wanted, i)->valuedouble)
			fail_msg("\"%s\": id %d is %d", text, i, ids.id[i]);
	char* back = tokenizer_decode(t, ids.id, ids.n, true, true, &size);
	assert_string_equal(back, text);
	free(back);
	token_list_free(&ids);
}

static void lines_are_tiktokens(void** state) {
	(void)state;
	char path[1024];
	struct error error = {""};
	struct tokenizer* t = open_golden();
	snprintf(path, sizeof path, "%s/tests/core/golden/tekken/lines.json", getenv("SWIFTLET_SOURCE"));
	cJSON* lines = json_read(path, &error);
	assert_non_null(lines);
	const cJSON* line;
	cJSON_ArrayForEach (line, lines)
		check_line(t, cJSON_GetArrayItem(line, 0)->valuestring, cJSON_GetArrayItem(line, 1));
	assert_int_equal(cJSON_GetArraySize(lines), 300);
	cJSON_Delete(lines);
	tokenizer_free(t);
}

static void special_tokens_have_their_ids(void** state) {
	(void)state;
	struct tokenizer* t = open_golden();
	assert_int_equal(tokenizer_size(t), 700);
	assert_int_equal(tokenizer_bos(t), 1);
	assert_int_equal(tokenizer_eos(t), 2);
	assert_true(tokenizer_adds_bos(t));
	assert_int_equal(tokenizer_find(t, "[INST]"), 3);
	assert_int_equal(tokenizer_find(t, "<SPECIAL_19>"), 19);
	tokenizer_free(t);
}

/* Files of the first version list no special tokens. */
static void old_files_have_the_first_names(void** state) {
	(void)state;
	static const char json[] =
	    "{\"config\": {\"pattern\": \".\", \"default_vocab_size\": 22, \"default_num_special_tokens\": 21},"
	    "\"vocab\": [{\"rank\": 0, \"token_bytes\": \"YQ==\"}, {\"rank\": 1, \"token_bytes\": \"Yg==\"}]}";
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_tekken(json, sizeof json - 1, NULL, &error);
	if (!t)
		fail_msg("%s", error.message);
	assert_int_equal(tokenizer_find(t, "[TOOL_CONTENT]"), 19);
	assert_int_equal(tokenizer_find(t, "<SPECIAL_20>"), 20);
	assert_int_equal(tokenizer_find(t, "a"), 21);
	assert_int_equal(tokenizer_size(t), 22); /* what lies beyond the vocabulary is left out */
	tokenizer_free(t);
}

static void broken_files_get_a_sentence(void** state) {
	(void)state;
#define CONFIG                                                                                               \
	"\"config\": {\"pattern\": \".\", \"default_vocab_size\": 9, \"default_num_special_tokens\": 2}"
	static const struct {
		const char *json, *part;
	} cases[] = {
	    {"{", "tekken.json"},
	    {"[]", "config is missing"},
	    {"{\"config\": {\"default_vocab_size\": 5, \"default_num_special_tokens\": 5}}",
	     "less than default_vocab_size 5"},
	    {"{\"config\": {\"default_vocab_size\": 5, \"default_num_special_tokens\": 1}}", "config.pattern"},
	    {"{" CONFIG "}", "vocab is not an array"},
	    {"{" CONFIG ", \"vocab\": [{}]}", "an entry has no rank"},
	    {"{" CONFIG ", \"vocab\": [{\"rank\": 0}]}", "token_bytes of rank 0"},
	    {"{" CONFIG ", \"vocab\": [{\"rank\": 0, \"token_bytes\": \"YQ=\"}]}", "token_bytes of rank 0"},
	    {"{" CONFIG ", \"vocab\": [{\"rank\": 0, \"token_bytes\": \"Y===\"}]}", "token_bytes of rank 0"},
	    {"{" CONFIG ", \"vocab\": [{\"rank\": 0, \"token_bytes\": \"YQ==YQ==\"}]}", "token_bytes of rank 0"},
	    {"{" CONFIG ", \"vocab\": [{\"rank\": 0, \"token_bytes\": \"YQ==\"}, {\"rank\": 0, "
	     "\"token_bytes\": \"Yg==\"}]}",
	     "2"},
	    {"{" CONFIG ", \"vocab\": [], \"special_tokens\": [{\"rank\": 2, \"token_str\": \"x\"}]}",
	     "no rank below 2"},
	    {"{" CONFIG ", \"vocab\": [], \"special_tokens\": {}}", "special_tokens is not an array"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error error = {""};
		assert_null(tokenizer_from_tekken(cases[i].json, strlen(cases[i].json), NULL, &error));
		if (!strstr(error.message, cases[i].part))
			fail_msg("%s gives \"%s\", wanted \"%s\"", cases[i].json, error.message, cases[i].part);
	}
}

int main(void) {
	if (!getenv("SWIFTLET_SOURCE")) {
		printf("skipped: SWIFTLET_SOURCE is not set to the source tree\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_are_tiktokens), cmocka_unit_test(special_tokens_have_their_ids),
	    cmocka_unit_test(old_files_have_the_first_names), cmocka_unit_test(broken_files_get_a_sentence)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
