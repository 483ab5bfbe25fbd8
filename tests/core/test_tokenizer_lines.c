/* Lines of mixed scripts, emoji and code: our ids against those of sentencepiece and Hugging Face
 * tokenizers (tools/oracle/tokenizer_lines.py), and every line decoded gives itself again. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "long_words.h"
#include "support_tokens.h"

static cJSON* golden;

static int load(void** state) {
	(void)state;
	struct file_bytes file = read_source("tests/core/golden/tokenizer_lines.json");
	golden = file.data ? cJSON_ParseWithLength(file.data, file.size) : NULL;
	free(file.data);
	return golden ? 0 : -1;
}

static int unload(void** state) {
	(void)state;
	cJSON_Delete(golden);
	return 0;
}

static bool same_ids(const cJSON* entry, const struct token_list* ids) {
	char hash[24];
	snprintf(hash, sizeof hash, "%016" PRIx64, hash_ids(ids));
	return cJSON_GetArrayItem(entry, 0)->valueint == ids->n &&
	       strcmp(cJSON_GetArrayItem(entry, 1)->valuestring, hash) == 0;
}

/* allowed: lines on which the reference's older Unicode tables differ. lossless: decoding gives the line. */
static void compare(const char* name, struct tokenizer* t, int flags, int allowed, bool lossless) {
	assert_non_null(t);
	const cJSON* lines = cJSON_GetObjectItem(golden, "lines");
	const cJSON* entry = cJSON_GetObjectItem(cJSON_GetObjectItem(golden, "ids"), name)->child;
	const cJSON* line;
	int wrong = 0, n = 0;
	cJSON_ArrayForEach (line, lines) {
		struct token_list ids = {0};
		size_t size = strlen(line->valuestring);
		assert_true(tokenizer_encode(t, line->valuestring, size, flags, &ids));
		if (!same_ids(entry, &ids)) {
			wrong++;
			print_message("%s: line %d differs: %s\n", name, n, line->valuestring);
		}
		size_t back_size;
		char* back = tokenizer_decode(t, ids.id, ids.n, true, true, &back_size);
		if (lossless && (back_size != size || memcmp(back, line->valuestring, size) != 0))
			fail_msg("%s: line %d decodes to \"%s\", expected \"%s\"", name, n, back, line->valuestring);
		free(back);
		token_list_free(&ids);
		entry = entry->next;
		n++;
	}
	print_message("%s: %d / %d lines\n", name, n - wrong, n);
	assert_in_range(wrong, 0, allowed);
	tokenizer_free(t);
}

static void byte_level(void** state) {
	(void)state;
	static const char* const pre[] = {"gpt-2",        "llama-bpe", "qwen2",    "deepseek-coder",
	                                  "deepseek-llm", "falcon",    "starcoder"};
	static const char* const vocabulary[] = {"gpt-2", "deepseek-coder"};
	for (size_t v = 0; v < 2; v++) {
		for (size_t i = 0; i < sizeof pre / sizeof pre[0]; i++) {
			char name[64];
			struct error error = {""};
			snprintf(name, sizeof name, "%s-as-%s", vocabulary[v], pre[i]);
			compare(name, open_vocabulary(vocabulary[v], pre[i], &error), 0, 0, true);
		}
	}
}

static struct tokenizer* from_file(const char* path, bool json) {
	struct error error = {""};
	struct file_bytes file = read_source(path);
	assert_non_null(file.data);
	struct tokenizer* t =
	    json ? tokenizer_from_json(file.data, file.size, NULL, &error)
	         : tokenizer_from_sentencepiece((const uint8_t*)file.data, file.size, NULL, &error);
	if (!t)
		fail_msg("%s", error.message);
	free(file.data);
	return t;
}

static void tokenizer_json(void** state) {
	(void)state;
	compare("builtin-json", from_file("core/builtin/tokenizer.json", true), 0, 0, false);
	compare("small-byte-level", from_file("tests/core/golden/small-byte-level.json", true), 1, 0, false);
	compare("small-unigram", from_file("tests/core/golden/small-unigram.json", true), 1, 0, false);
}

static void tokenizer_model(void** state) {
	(void)state;
	compare("tiny-tasks-spm", from_file("core/builtin/tokenizer.model", false), TOKENIZE_NO_SPECIAL, 0,
	        false);
	compare("small-unigram-spm", from_file("tests/core/golden/small-unigram.model", false),
	        TOKENIZE_NO_SPECIAL, 0, false);
}

static void llama2(void** state) {
	(void)state;
	struct error error = {""};
	compare("llama-2-spm", open_vocabulary("llama-spm", NULL, &error), TOKENIZE_NO_SPECIAL, 0, false);
	struct file_bytes file = read_shared("vocab/llama-2-tokenizer.model");
	if (!file.data) {
		print_message("llama-2-tokenizer.model: not compared, $SWIFTLET_SHARED/vocab is missing\n");
		return;
	}
	compare("llama-2-spm", tokenizer_from_sentencepiece((const uint8_t*)file.data, file.size, NULL, &error),
	        TOKENIZE_NO_SPECIAL, 0, false);
	free(file.data);
}

/* Ids as one heap over the whole word gave them: spans must not show. */
static void long_words(void** state) {
	(void)state;
	static const struct {
		const char *name, *pre;
		uint64_t hash[LONG_WORD_KINDS];
	} vocabulary[] = {
	    {"gpt-2",
	     "gpt-2",
	     {0xe1def9ed9b1d23a5, 0xf9de0529f408a843, 0x900c04d72b158496, 0x2b1ed9feaeba194f, 0xbade8c182f6e8a4d,
	      0xa164b3990b7d5475, 0x11601ddc37b739c5, 0x4d5980b7964b0e30}},
	    {"gpt-2",
	     "tekken",
	     {0xe1def9ed9b1d23a5, 0xf9de0529f408a843, 0x900c04d72b158496, 0x2b1ed9feaeba194f, 0xbade8c182f6e8a4d,
	      0xa164b3990b7d5475, 0x11601ddc37b739c5, 0xd0c9e0ef0a4841ff}},
	    {"deepseek-coder",
	     "qwen2",
	     {0xf69df03f88f47525, 0x33934b33b50825fd, 0x5715551a03b5d163, 0x42a0e1249da4e30f, 0x667a19de2f30d16e,
	      0xff5d118b2db2cea9, 0x16bf14441424fde5, 0x6657cef272c0cc11}},
	    {"deepseek-coder",
	     NULL,
	     {0xf69df03f88f47525, 0x33934b33b50825fd, 0x5715551a03b5d163, 0x42a0e1249da4e30f, 0x667a19de2f30d16e,
	      0xff5d118b2db2cea9, 0x16bf14441424fde5, 0x932fcc823c9abf73}},
	    {"llama-spm",
	     NULL,
	     {0x66d8b08cd27de330, 0x354315464272368c, 0x3470fe9f5849abd4, 0x21acdd1031ed22d7, 0x677109efa4632f34,
	      0x1aac9985b7dc956e, 0x4892a66dbe66b955, 0x30d25ce575ad364b}},
	};
	for (size_t v = 0; v < sizeof vocabulary / sizeof *vocabulary; v++) {
		struct error error = {""};
		struct tokenizer* const t = open_vocabulary(vocabulary[v].name, vocabulary[v].pre, &error);
		assert_non_null(t);
		for (int kind = 0; kind < LONG_WORD_KINDS; kind++) {
			struct token_list ids = {0}, first = {.limit = 1000};
			char* const text = long_word(kind);
			assert_true(tokenizer_encode(t, text, LONG_WORD, TOKENIZE_NO_SPECIAL, &ids));
			if (hash_ids(&ids) != vocabulary[v].hash[kind])
				fail_msg("%s: kind %d gives %016" PRIx64, vocabulary[v].name, kind, hash_ids(&ids));
			/* A limit leaves the first ids as they are. */
			assert_true(tokenizer_encode(t, text, LONG_WORD, TOKENIZE_NO_SPECIAL, &first));
			assert_int_equal(first.n, 1000);
			assert_memory_equal(first.id, ids.id, 1000 * sizeof *ids.id);
			token_list_free(&ids);
			token_list_free(&first);
			free(text);
		}
		tokenizer_free(t);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(byte_level), cmocka_unit_test(tokenizer_json),
	                                   cmocka_unit_test(tokenizer_model), cmocka_unit_test(llama2),
	                                   cmocka_unit_test(long_words)};
	return cmocka_run_group_tests(tests, load, unload);
}
