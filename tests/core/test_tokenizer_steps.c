/* Every kind of normalizer, pre-tokenizer and post-processor of tokenizer.json: our ids against Hugging Face
 * tokenizers' (tools/oracle/tokenizer_steps.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "core/text/tokenizer.h"
#include "support_tokens.h"

static struct tokenizer* build(const cJSON* model, const cJSON* sections) {
	struct error error = {""};
	cJSON* const whole = cJSON_Duplicate(model, true);
	const cJSON* section;
	cJSON_ArrayForEach (section, sections)
		cJSON_AddItemToObject(whole, section->string, cJSON_Duplicate(section, true));
	char* const text = cJSON_PrintUnformatted(whole);
	struct tokenizer* const t = tokenizer_from_json(text, strlen(text), NULL, &error);
	if (!t)
		print_message("%s\n", error.message);
	free(text);
	cJSON_Delete(whole);
	return t;
}

static bool same_ids(const struct tokenizer* t, const char* text, const cJSON* ids) {
	struct token_list list = {0};
	assert_true(tokenizer_encode(t, text, strlen(text), TOKENIZE_ADD_SPECIAL, &list));
	bool same = list.n == cJSON_GetArraySize(ids);
	const cJSON* id = ids->child;
	for (int i = 0; i < list.n && same; i++, id = id->next)
		same = list.id[i] == id->valueint;
	token_list_free(&list);
	return same;
}

static void ids_are_the_reference_s(void** state) {
	(void)state;
	struct file_bytes file = read_source("tests/core/golden/tokenizer_steps.json");
	cJSON* const golden = cJSON_ParseWithLength(file.data, file.size);
	const cJSON *entry, *texts = cJSON_GetObjectItem(golden, "texts");
	int n = 0, wrong = 0;
	cJSON_ArrayForEach (entry, cJSON_GetObjectItem(golden, "cases")) {
		const cJSON* const model =
		    cJSON_GetArrayItem(cJSON_GetObjectItem(golden, "models"), entry->child->valueint);
		const cJSON* const sections = entry->child->next;
		struct tokenizer* const t = build(model, sections);
		const cJSON *text, *ids = sections->next->child;
		assert_non_null(t);
		cJSON_ArrayForEach (text, texts) {
			if (!same_ids(t, text->valuestring, ids)) {
				char* const shown = cJSON_PrintUnformatted(sections);
				print_message("model %d, %s on \"%s\"\n", entry->child->valueint, shown, text->valuestring);
				free(shown);
				wrong++;
			}
			ids = ids->next;
			n++;
		}
		tokenizer_free(t);
	}
	print_message("%d / %d texts\n", n - wrong, n);
	assert_true(n > 2000);
	assert_int_equal(wrong, 0);
	cJSON_Delete(golden);
	free(file.data);
}

int main(void) {
	static const struct CMUnitTest tests[] = {cmocka_unit_test(ids_are_the_reference_s)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
