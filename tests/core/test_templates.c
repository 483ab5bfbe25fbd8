/* The templates that a model's files hold: which is the model's, which have names, and another instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/files/gguf.h"
#include "core/model/model.h"

static char folder[64];

static void put(const char* name, const char* text) {
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE* const file = fopen(path, "wb");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int make_folder(void** state) {
	(void)state;
	char path[128];
	snprintf(folder, sizeof folder, "/tmp/swiftlet-templates-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof path, "%s/additional_chat_templates", folder);
	return mkdir(path, 0700);
}

static int remove_folder(void** state) {
	(void)state;
	static const char* const names[] = {"tokenizer_config.json",
	                                    "chat_template.jinja",
	                                    "other.jinja",
	                                    "additional_chat_templates/rag.jinja",
	                                    "additional_chat_templates/notes.txt",
	                                    "additional_chat_templates",
	                                    ""};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char path[256];
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		remove(path);
	}
	return 0;
}

static void reads(struct model* model) {
	struct error error = {""};
	*model = (struct model){0};
	if (!model_read_templates(model, folder, &error))
		fail_msg("%s", error.message);
}

static void folders_may_have_several(void** state) {
	(void)state;
	struct model model;
	reads(&model);
	assert_null(model_chat_template(&model, false));
	put("tokenizer_config.json", "{\"chat_template\": \"one\"}");
	reads(&model);
	assert_string_equal(model_chat_template(&model, true), "one");
	model_free_templates(&model);
	put("tokenizer_config.json",
	    "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}, {\"name\": "
	    "\"default\", \"template\": \"two\"}, {\"name\": 5}]}");
	reads(&model);
	assert_string_equal(model_chat_template(&model, false), "two");
	assert_string_equal(model_chat_template(&model, true), "tools");
	model_free_templates(&model);
	put("chat_template.jinja", "three\n");
	put("additional_chat_templates/rag.jinja", "rag");
	put("additional_chat_templates/notes.txt", "not one");
	reads(&model);
	assert_string_equal(model_chat_template(&model, false), "three\n");
	assert_int_equal(model.n_named_templates, 2);
	assert_string_equal(model.named_template[1].name, "rag");
	assert_string_equal(model.named_template[1].text, "rag");
	model_free_templates(&model);
}

static void another_is_taken_by_name_or_from_a_file(void** state) {
	(void)state;
	struct model model;
	struct error error = {""};
	char path[256];
	put("tokenizer_config.json",
	    "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}, {\"name\": "
	    "\"default\", \"template\": \"two\"}]}");
	put("other.jinja", "other");
	reads(&model);
	assert_false(model_take_template(&model, "nothing", &error));
	assert_non_null(strstr(error.message, "nothing"));
	assert_non_null(strstr(error.message, "tool_use"));
	assert_true(model_take_template(&model, "tool_use", &error));
	assert_string_equal(model_chat_template(&model, false), "tools");
	snprintf(path, sizeof path, "%s/other.jinja", folder);
	assert_true(model_take_template(&model, path, &error));
	assert_string_equal(model_chat_template(&model, true), "other");
	assert_false(model_take_template(&model, "tool_use", &error));
	model_free_templates(&model);
}

/* A GGUF string: a u64 length and its bytes. */
static struct gguf_value string_value(const char* key, const char* text, uint8_t* space) {
	const uint64_t size = strlen(text);
	memcpy(space, &size, sizeof size);
	memcpy(space + sizeof size, text, size);
	return (struct gguf_value){
	    .key = key, .key_size = strlen(key), .type = GGUF_STRING, .n = 1, .data = space};
}

static void gguf_names_them_by_key(void** state) {
	(void)state;
	uint8_t space[4][64];
	struct gguf_value value[] = {string_value("tokenizer.chat_template", "main", space[0]),
	                             string_value("tokenizer.chat_template.tool_use", "tools", space[1]),
	                             string_value("tokenizer.chat_template.", "nameless", space[2]),
	                             string_value("tokenizer.chat_templates", "a list of names", space[3])};
	const struct gguf gguf = {.file = "a.gguf", .value = value, .n = 4};
	struct model model = {0};
	struct error error = {""};
	assert_true(model_read_gguf_templates(&model, &gguf, &error));
	assert_string_equal(model_chat_template(&model, false), "main");
	assert_string_equal(model_chat_template(&model, true), "tools");
	assert_int_equal(model.n_named_templates, 1);
	model_free_templates(&model);
	value[0].type = GGUF_U32;
	assert_false(model_read_gguf_templates(&model, &gguf, &error));
	assert_non_null(strstr(error.message, "tokenizer.chat_template"));
	model_free_templates(&model);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(folders_may_have_several, make_folder, remove_folder),
	    cmocka_unit_test_setup_teardown(another_is_taken_by_name_or_from_a_file, make_folder, remove_folder),
	    cmocka_unit_test(gguf_names_them_by_key),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
