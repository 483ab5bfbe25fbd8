/* GGUF vocabularies against llama.cpp: which pieces end a text (golden/gguf-ends-NAME), and how texts are cut
 * under each name of tokenizer.ggml.pre (golden/pretokenizers.json; another file of that form, of more texts,
 * in SWIFTLET_PRETOKENIZERS). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/files/json.h"
#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "support_tokens.h"

static const char* golden(const char* name, char out[1024]) {
	snprintf(out, 1024, "%s/tests/core/golden/%s", getenv("SWIFTLET_SOURCE"), name);
	return out;
}

static cJSON* read_json(const char* path) {
	struct error error = {""};
	cJSON* json = json_read(path, &error);
	if (!json)
		fail_msg("%s", error.message);
	return json;
}

static void check_ends(const char* set) {
	char name[64], path[1024];
	struct error error = {""};
	snprintf(name, sizeof name, "gguf-ends-%s/vocabulary.gguf", set);
	struct model* model =
	    model_open(golden(name, path), &(struct model_options){.vocabulary_only = true}, &error);
	if (!model)
		fail_msg("%s", error.message);
	snprintf(name, sizeof name, "gguf-ends-%s/ends.json", set);
	cJSON* ends = read_json(golden(name, path));
	assert_int_equal(model->n_end_tokens, cJSON_GetArraySize(ends));
	const cJSON* one;
	cJSON_ArrayForEach (one, ends)
		assert_true(model_is_end(model, (int32_t)one->valuedouble));
	cJSON_Delete(ends);
	model_close(model);
}

static void ends_are_llama_cpps(void** state) {
	(void)state;
	static const char* const sets[] = {"plain", "harmony", "solar", "turns"};
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
		check_ends(sets[i]);
}

/* The "</s>" of a vocabulary that has "<|tool_response>" too is text in a text: no piece of these few spells
 * it. */
static void a_piece_beside_tool_responses_is_plain(void** state) {
	(void)state;
	char path[1024];
	struct error error = {""};
	static const char* const sets[] = {"turns", "plain"};
	for (int i = 0; i < 2; i++) {
		char name[64];
		snprintf(name, sizeof name, "gguf-ends-%s/vocabulary.gguf", sets[i]);
		struct model* model =
		    model_open(golden(name, path), &(struct model_options){.vocabulary_only = true}, &error);
		if (!model)
			fail_msg("%s", error.message);
		struct token_list ids = {0};
		assert_true(tokenizer_encode(model->tokenizer, "</s>", 4, 0, &ids));
		assert_int_equal(ids.n, i);
		token_list_free(&ids);
		model_close(model);
	}
}

static bool same(const struct token_list* ids, const cJSON* wanted) {
	int n = 0;
	const cJSON* one;
	cJSON_ArrayForEach (one, wanted) {
		if (n == ids->n || ids->id[n] != (int32_t)one->valuedouble)
			return false;
		n++;
	}
	return n == ids->n;
}

/* Returns the lines that differ; prints the first. */
static int check_lines(const struct tokenizer* t, const char* pre, const cJSON* lines) {
	int wrong = 0;
	const cJSON* line;
	cJSON_ArrayForEach (line, lines) {
		const char* text = cJSON_GetArrayItem(line, 0)->valuestring;
		struct token_list ids = {0};
		assert_true(tokenizer_encode(t, text, strlen(text), 0, &ids));
		if (!same(&ids, cJSON_GetArrayItem(line, 1)) && wrong++ == 0)
			print_message("%s: \"%s\" differs\n", pre, text);
		token_list_free(&ids);
	}
	return wrong;
}

static int check_name(const char* pre, const cJSON* lines) {
	struct error error = {""};
	struct tokenizer* t = open_vocabulary("gpt-2", pre, &error);
	if (!t)
		fail_msg("%s: %s", pre, error.message);
	const int wrong = check_lines(t, pre, lines);
	tokenizer_free(t);
	return wrong;
}

/* Another kind of vocabulary than gpt-2's: golden/gguf-gemma4. */
static void gemma4s_merges_go_over_characters(void** state) {
	(void)state;
	char path[1024];
	struct error error = {""};
	struct model* model = model_open(golden("gguf-gemma4/vocabulary.gguf", path),
	                                 &(struct model_options){.vocabulary_only = true}, &error);
	if (!model)
		fail_msg("%s", error.message);
	cJSON* lines = read_json(golden("gguf-gemma4/lines.json", path));
	assert_int_equal(cJSON_GetArraySize(lines), 150);
	assert_int_equal(check_lines(model->tokenizer, "gemma4", lines), 0);
	cJSON_Delete(lines);
	model_close(model);
}

static void texts_are_cut_as_llama_cpp_cuts_them(void** state) {
	(void)state;
	char path[1024];
	const char* given = getenv("SWIFTLET_PRETOKENIZERS");
	cJSON* json = read_json(given ? given : golden("pretokenizers.json", path));
	int names = 0, lines = 0, wrong = 0;
	const cJSON* one;
	cJSON_ArrayForEach (one, json) {
		const int n = check_name(one->string, one);
		if (n > 0)
			print_message("%s: %d of %d differ\n", one->string, n, cJSON_GetArraySize(one));
		wrong += n;
		lines += cJSON_GetArraySize(one);
		names++;
	}
	print_message("%d names, %d texts, %d differ\n", names, lines, wrong);
	assert_true(names > 0 && wrong == 0);
	cJSON_Delete(json);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(ends_are_llama_cpps),
	                                   cmocka_unit_test(a_piece_beside_tool_responses_is_plain),
	                                   cmocka_unit_test(gemma4s_merges_go_over_characters),
	                                   cmocka_unit_test(texts_are_cut_as_llama_cpp_cuts_them)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
