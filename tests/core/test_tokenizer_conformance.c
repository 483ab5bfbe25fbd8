/* llama.cpp's vectors for real vocabularies, through model_open: every text gives the ids listed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "support_tokens.h"

static const char separator[] = "\n__ggml_vocab_test__\n";

/* The ids of one line, or -1 when they differ from what encoding gives. */
static bool line_equals(const char* line, const struct token_list* ids) {
	int n = 0;
	for (;;) {
		char* end;
		long id = strtol(line, &end, 10);
		if (end == line)
			return n == ids->n;
		if (n == ids->n || ids->id[n++] != id)
			return false;
		line = end;
		if (*line == '\n')
			return n == ids->n;
	}
}

static void show(const char* text, size_t size, const struct token_list* ids, const char* want) {
	print_message("text \"%.*s\"\n  wanted %.*s\n  got   ", (int)size, text, (int)strcspn(want, "\n"), want);
	for (int i = 0; i < ids->n; i++)
		print_message(" %d", ids->id[i]);
	print_message("\n");
}

static void check(const char* name) {
	char path[256], gguf[4096];
	snprintf(path, sizeof path, "tests/core/vocab/%s.gguf.inp", name);
	struct file_bytes in = read_source(path);
	snprintf(path, sizeof path, "tests/core/vocab/%s.gguf.out", name);
	struct file_bytes out = read_source(path);
	assert_non_null(in.data);
	assert_non_null(out.data);
	snprintf(gguf, sizeof gguf, "%s/tests/core/vocab/%s.gguf", getenv("SWIFTLET_SOURCE"), name);
	struct error error = {""};
	struct model* model = model_open(gguf, &(struct model_options){.vocabulary_only = true}, &error);
	if (!model)
		fail_msg("%s", error.message);
	int lines = 0, passed = 0;
	const char* text = in.data;
	const char* want = out.data;
	while (*want || want == out.data) {
		const char* end = strstr(text, separator);
		assert_non_null(end);
		struct token_list ids = {0};
		assert_true(tokenizer_encode(model->tokenizer, text, (size_t)(end - text), 0, &ids));
		bool equal = *want == '\n' ? ids.n == 0 : line_equals(want, &ids);
		if (!equal)
			show(text, (size_t)(end - text), &ids, want);
		lines++;
		passed += equal;
		token_list_free(&ids);
		text = end + sizeof separator - 1;
		want = strchr(want, '\n');
		assert_non_null(want);
		want++;
	}
	print_message("%s: %d / %d lines\n", name, passed, lines);
	assert_int_equal(passed, lines);
	assert_true(lines >= 46);
	model_close(model);
	free(in.data);
	free(out.data);
}

static void llama_spm(void** state) {
	(void)state;
	check("llama-spm");
}
static void gpt2(void** state) {
	(void)state;
	check("gpt-2");
}
static void deepseek_coder(void** state) {
	(void)state;
	check("deepseek-coder");
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(llama_spm), cmocka_unit_test(gpt2),
	                                   cmocka_unit_test(deepseek_coder)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
