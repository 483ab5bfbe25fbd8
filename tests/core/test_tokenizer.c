/* The promises of a tokenizer beside the right ids: bytes come back, special tokens obey their flags, text
 * streams in whole characters, broken files get one sentence, and no text takes long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "core/files/utf8.h"
#include "core/text/tokenizer.h"
#include "support_tokens.h"
#include "tests/sanitized.h"

static struct tokenizer* open_file(const char* path) {
	struct error error = {""};
	struct file_bytes file = read_source(path);
	assert_non_null(file.data);
	bool json = strstr(path, ".json") != NULL;
	struct tokenizer* t =
	    json ? tokenizer_from_json(file.data, file.size, NULL, &error)
	         : tokenizer_from_sentencepiece((const uint8_t*)file.data, file.size, NULL, &error);
	if (!t)
		fail_msg("%s: %s", path, error.message);
	free(file.data);
	return t;
}

/* Every tokenizer that loses nothing. scored: U+2581 in a text comes back as a space. */
static struct tokenizer* open_lossless(int which, bool* scored, const char** name) {
	static const char* const file[] = {"core/builtin/tokenizer.json", "core/builtin/tokenizer.model",
	                                   "tests/core/golden/small-unigram.model"};
	static const char* const pre[] = {"default",      "gpt-2",       "llama-bpe",  "qwen2",
	                                  "tekken",       "falcon",      "smollm",     "deepseek-coder",
	                                  "deepseek-llm", "deepseek-v3", "gpt-4o",     "qwen35",
	                                  "seed-coder",   "minicpm5",    "bailingmoe", "exaone-moe"};
	*scored = which < 3;
	if (which < 3) {
		*name = file[which];
		return open_file(file[which]);
	}
	if (which - 3 >= (int)(sizeof pre / sizeof pre[0]))
		return NULL;
	*name = pre[which - 3];
	struct error error = {""};
	struct tokenizer* t = open_vocabulary("gpt-2", *name, &error);
	if (!t)
		fail_msg("%s: %s", *name, error.message);
	return t;
}

static void check_round_trip(const struct tokenizer* t, const char* name, const char* text, size_t size) {
	struct token_list ids = {0};
	size_t back_size = 0;
	assert_true(tokenizer_encode(t, text, size, TOKENIZE_NO_SPECIAL, &ids));
	char* back = tokenizer_decode(t, ids.id, ids.n, true, true, &back_size);
	assert_non_null(back);
	if (back_size != size || memcmp(back, text, size) != 0)
		fail_msg("%s: \"%.200s\" comes back as \"%.200s\"", name, text, back);
	free(back);
	token_list_free(&ids);
}

/* ---- bytes come back ------------------------------------------------------------------------ */

static void any_bytes_come_back(void** state) {
	(void)state;
	uint64_t random = 88172645463325252u;
	bool scored;
	const char* name;
	struct tokenizer* t;
	for (int which = 0; (t = open_lossless(which, &scored, &name)) != NULL; which++) {
		for (int round = 0; round < 200; round++) {
			char text[64];
			for (size_t i = 0; i < sizeof text; i++) {
				random ^= random << 13;
				random ^= random >> 7;
				random ^= random << 17;
				text[i] =
				    round % 2 ? (char)(random >> 32) : "ab \n\t1.'\xff\xc3\xa9\xf0\x9f\xa6\x99s"[random % 17];
			}
			check_round_trip(t, name, text, (size_t)round % sizeof text);
		}
		tokenizer_free(t);
	}
}

static void check_stream_file(const struct tokenizer* t, const char* name, char* lines) {
	for (char* line = strtok(lines, "\n"); line; line = strtok(NULL, "\n")) {
		cJSON* root = cJSON_Parse(line);
		const cJSON* prompt = cJSON_GetObjectItem(root, "prompt");
		assert_true(cJSON_IsString(prompt));
		check_round_trip(t, name, prompt->valuestring, strlen(prompt->valuestring));
		cJSON_Delete(root);
	}
}

static void streams_come_back(void** state) {
	(void)state;
	static const char* const file[] = {"streams/humaneval.jsonl", "streams/spec-bench.jsonl",
	                                   "streams/tiny-tasks-by-task.jsonl"};
	bool scored;
	const char* name;
	struct tokenizer* t;
	for (int which = 0; (t = open_lossless(which, &scored, &name)) != NULL; which++) {
		for (size_t i = 0; i < sizeof file / sizeof file[0]; i++) {
			struct file_bytes lines = read_shared(file[i]);
			if (!lines.data) {
				tokenizer_free(t);
				print_message("skipped: $SWIFTLET_SHARED/%s is missing\n", file[i]);
				skip();
			}
			check_stream_file(t, name, lines.data);
			free(lines.data);
		}
		tokenizer_free(t);
	}
}

/* ---- the stream of text ----------------------------------------------------------------------- */

static void text_comes_in_whole_characters(void** state) {
	(void)state;
	static const char text[] = "na\xc3\xafve \xf0\x9f\xa6\x99 \xe4\xb8\xad\xe6\x96\x87 \xe2\x80\x8d!";
	bool scored;
	const char* name;
	struct tokenizer* t;
	for (int which = 0; (t = open_lossless(which, &scored, &name)) != NULL; which++) {
		struct token_list ids = {0};
		char all[256] = "";
		size_t n = 0;
		struct text_stream stream;
		char out[4096];
		assert_true(tokenizer_encode(t, text, sizeof text - 1, 0, &ids));
		text_stream_start(&stream, t);
		for (int i = 0; i < ids.n; i++) {
			size_t more = text_stream_add(&stream, ids.id[i], out, sizeof out);
			for (size_t at = 0; at < more;) {
				size_t length = utf8_character(out + at, more - at, NULL);
				assert_true(length > 0);
				at += length;
			}
			memcpy(all + n, out, more);
			n += more;
		}
		assert_int_equal(text_stream_end(&stream, out, sizeof out), 0);
		assert_int_equal(n, sizeof text - 1 + (scored ? 1 : 0));
		assert_memory_equal(all + (scored ? 1 : 0), text, sizeof text - 1);
		token_list_free(&ids);
		tokenizer_free(t);
	}
}

static void malformed_text_is_replaced(void** state) {
	(void)state;
	static const struct {
		const char *bytes, *shown;
	} cases[] = {{"a\xff"
	              "b",
	              "a\xef\xbf\xbd"
	              "b"},
	             {"\xf0\x9f\xa6", "\xef\xbf\xbd"},
	             {"\xf0\x9f\xa6x", "\xef\xbf\xbdx"},
	             {"\xc3\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"},
	             {"\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	             {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}};
	struct tokenizer* t = tokenizer_bytes(300);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct text_stream stream;
		char out[256], all[256];
		size_t n = 0;
		text_stream_start(&stream, t);
		for (const char* byte = cases[i].bytes; *byte; byte++) {
			size_t more = text_stream_add(&stream, (uint8_t)*byte, out, sizeof out);
			memcpy(all + n, out, more);
			n += more;
		}
		n += text_stream_end(&stream, all + n, sizeof all - n);
		assert_int_equal(n, strlen(cases[i].shown));
		assert_memory_equal(all, cases[i].shown, n);
	}
	tokenizer_free(t);
}

static void bytes_print_as_bytes_and_ids(void** state) {
	(void)state;
	struct tokenizer* t = tokenizer_bytes(1000);
	char out[32];
	assert_int_equal(tokenizer_piece(t, 65, false, out, sizeof out), 1);
	assert_int_equal(out[0], 'A');
	assert_int_equal(tokenizer_piece(t, 999, false, out, sizeof out), 5);
	assert_memory_equal(out, "<999>", 5);
	assert_int_equal(tokenizer_bos(t), -1);
	check_round_trip(t, "bytes", "any\0thing\xff", 10);
	tokenizer_free(t);
}

/* ---- special tokens --------------------------------------------------------------------------- */

static void expect_ids(const struct tokenizer* t, const char* text, int flags, const int32_t* want, int n) {
	struct token_list ids = {0};
	assert_true(tokenizer_encode(t, text, strlen(text), flags, &ids));
	if (ids.n != n || (n > 0 && memcmp(ids.id, want, (size_t)n * sizeof *want) != 0))
		fail_msg("\"%s\" gives %d ids, the first %d; expected %d, the first %d", text, ids.n,
		         ids.n ? ids.id[0] : -1, n, n ? want[0] : -1);
	token_list_free(&ids);
}

static void special_tokens_are_recognised_when_asked(void** state) {
	(void)state;
	struct tokenizer* t = open_file("core/builtin/tokenizer.model");
	assert_int_equal(tokenizer_bos(t), 1);
	assert_int_equal(tokenizer_eos(t), 2);
	assert_true(tokenizer_adds_bos(t));
	expect_ids(t, "", 0, NULL, 0);
	expect_ids(t, "", TOKENIZE_ADD_SPECIAL, (int32_t[]){1}, 1);
	expect_ids(t, "</s>", 0, (int32_t[]){2}, 1);
	expect_ids(t, "<s></s>", TOKENIZE_ADD_SPECIAL, (int32_t[]){1, 1, 2}, 3);
	struct token_list ids = {0};
	assert_true(tokenizer_encode(t, "</s>", 4, TOKENIZE_NO_SPECIAL, &ids));
	for (int i = 0; i < ids.n; i++)
		assert_false(tokenizer_is_special(t, ids.id[i]));
	assert_true(tokenizer_is_special(t, 2));
	assert_int_equal(tokenizer_piece(t, 2, false, NULL, 0), 0);
	assert_int_equal(tokenizer_piece(t, 2, true, NULL, 0), 4);
	assert_int_equal(tokenizer_find(t, "</s>"), 2);
	assert_int_equal(tokenizer_find(t, "no such piece"), -1);
	token_list_free(&ids);
	tokenizer_free(t);
}

static const char flags_json[] =
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\" \":3,\"ab\":4},"
    "\"merges\":[\"a b\"]},\"added_tokens\":["
    "{\"id\":5,\"content\":\"<l>\",\"special\":true,\"lstrip\":true},"
    "{\"id\":6,\"content\":\"<r>\",\"special\":true,\"rstrip\":true},"
    "{\"id\":7,\"content\":\"aa\",\"special\":false,\"single_word\":true,\"normalized\":false},"
    "{\"id\":8,\"content\":\"<|x|>\",\"special\":false,\"normalized\":false},"
    "{\"id\":9,\"content\":\"<r>b\",\"special\":false,\"normalized\":false}],"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<l>\"}},"
    "{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"<r>\"}}],\"special_tokens\":{"
    "\"<l>\":{\"ids\":[5]},\"<r>\":{\"ids\":[6]}}}}";

static void added_tokens_obey_their_flags(void** state) {
	(void)state;
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_json(flags_json, sizeof flags_json - 1, NULL, &error);
	if (!t)
		fail_msg("%s", error.message);
	expect_ids(t, "ab", 0, (int32_t[]){4}, 1);
	expect_ids(t, "a  <l> a", 0, (int32_t[]){1, 5, 3, 1}, 4);
	expect_ids(t, "a <r>  \n a", 0, (int32_t[]){1, 3, 6, 1}, 4);
	expect_ids(t, "aa b aab", 0, (int32_t[]){7, 3, 2, 3, 1, 4}, 6);
	expect_ids(t,
	           "\xe2\x93\x90"
	           "aa !aa",
	           0, (int32_t[]){0, 1, 1, 3, 0, 7}, 6); /* a letter in a circle belongs to the word */
	expect_ids(t, "<r>b", 0, (int32_t[]){9}, 1);     /* the longest wins */
	expect_ids(t, "<|x|>", 0, (int32_t[]){8}, 1);    /* looks special: */
	expect_ids(t, "<|x|>", TOKENIZE_NO_SPECIAL, (int32_t[]){0, 0, 0, 0, 0}, 5);
	expect_ids(t, "ab", TOKENIZE_ADD_SPECIAL, (int32_t[]){5, 4, 6}, 3);
	tokenizer_free(t);
	t = tokenizer_from_json(
	    flags_json, sizeof flags_json - 1,
	    "{\"bos_token\":{\"content\":\"<l>\"},\"eos_token\":\"<|x|>\",\"add_bos_token\":false,"
	    "\"add_eos_token\":true}",
	    &error);
	assert_non_null(t);
	assert_int_equal(tokenizer_eos(t), 8);
	expect_ids(t, "ab", TOKENIZE_ADD_SPECIAL, (int32_t[]){4, 6, 8}, 3);
	tokenizer_free(t);
}

#define METASPACE(split)                                                                                     \
	"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"+\",\"prepend_scheme\":\"always\","        \
	"\"split\":" split "},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"+\",-3]," \
	"[\"a\",-3],[\"b\",-3],"                                                                                 \
	"[\"+a\",-2],[\"a+b\",-1],[\"+b\",-2]]}}"

/* Nothing that a pattern would read in it means more than itself: ids are those of the library tokenizers. */
static void any_character_stands_for_a_space(void** state) {
	(void)state;
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_json(METASPACE("true"), strlen(METASPACE("true")), NULL, &error);
	if (!t)
		fail_msg("%s", error.message);
	expect_ids(t, "a b", 0, (int32_t[]){4, 6}, 2);
	expect_ids(t, "a+b", 0, (int32_t[]){4, 6}, 2);
	expect_ids(t, "ab", 0, (int32_t[]){4, 3}, 2);
	tokenizer_free(t);
	t = tokenizer_from_json(METASPACE("false"), strlen(METASPACE("false")), NULL, &error);
	assert_non_null(t);
	expect_ids(t, "a b", 0, (int32_t[]){1, 5}, 2);
	tokenizer_free(t);
}

/* A vocabulary as GGUF gives it: sentencepiece, with Phi-3's special tokens and a user-defined piece. */
static struct tokenizer* phi3_vocabulary(void) {
	enum { N = 10 };
	static const char* const piece[N] = {"<unk>",
	                                     "<s>",
	                                     "\xe2\x96\x81",
	                                     "a",
	                                     "<|assistant|>",
	                                     "<|end|>",
	                                     "<0x0A>",
	                                     "  ",
	                                     "<|placeholder6|>",
	                                     ("\xe2\x96\x81"
	                                      "a")};
	static const int32_t type[N] = {2, 3, 1, 1, 3, 3, 6, 4, 3, 1};
	static const float score[N] = {0, 0, -2, -3, 0, 0, 0, 0, 0, -1};
	size_t size[N];
	for (int i = 0; i < N; i++)
		size[i] = strlen(piece[i]);
	struct gguf_vocabulary v = {.model = "llama",
	                            .n = N,
	                            .piece = piece,
	                            .piece_size = size,
	                            .score = score,
	                            .type = type,
	                            .bos = 1,
	                            .eos = 5,
	                            .unknown = 0,
	                            .add_bos = -1,
	                            .add_eos = -1,
	                            .add_space_prefix = -1,
	                            .remove_extra_whitespaces = -1};
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_gguf(&v, &error);
	if (!t)
		fail_msg("%s", error.message);
	return t;
}

/* Runs of spaces are one where the file asks for it. */
static void gguf_honours_its_white_space(void** state) {
	(void)state;
	static const char* const piece[] = {"<unk>", "</s>", "\xe2\x96\x81",
	                                    ("\xe2\x96\x81"
	                                     "a"),
	                                    "a"};
	enum { N = sizeof piece / sizeof *piece };
	static const int32_t type[N] = {2, 3, 1, 1, 1};
	static const float score[N] = {0, 0, -2, -1, -3};
	size_t size[N];
	for (int i = 0; i < N; i++)
		size[i] = strlen(piece[i]);
	for (int said = -1; said <= 1; said++) {
		struct gguf_vocabulary v = {.model = "llama",
		                            .n = N,
		                            .piece = piece,
		                            .piece_size = size,
		                            .score = score,
		                            .type = type,
		                            .bos = -1,
		                            .eos = 1,
		                            .unknown = 0,
		                            .add_bos = -1,
		                            .add_eos = -1,
		                            .add_space_prefix = -1,
		                            .remove_extra_whitespaces = said};
		struct error error = {""};
		struct tokenizer* t = tokenizer_from_gguf(&v, &error);
		if (!t)
			fail_msg("%s", error.message);
		if (said == 1)
			expect_ids(t, "a  a", 0, (int32_t[]){3, 3}, 2);
		else
			expect_ids(t, "a  a", 0, (int32_t[]){3, 2, 3}, 3);
		tokenizer_free(t);
	}
}

static void gguf_vocabularies_keep_their_habits(void** state) {
	(void)state;
	struct tokenizer* t = phi3_vocabulary();
	assert_true(tokenizer_adds_bos(t));
	expect_ids(t, "a", TOKENIZE_ADD_SPECIAL, (int32_t[]){1, 9}, 2);
	expect_ids(t, "<|end|> \n a<s>\n", 0, (int32_t[]){5, 9, 1, 2, 6}, 5); /* Phi-3's swallow what follows */
	expect_ids(t, "a   a", 0, (int32_t[]){9, 7, 9}, 3);                   /* the longest user-defined first */
	tokenizer_free(t);
	struct error error = {""};
	t = open_vocabulary("gpt-2", "llama-bpe", &error);
	assert_true(tokenizer_adds_bos(t)); /* Llama 3's habit, where the file does not say */
	tokenizer_free(t);
	t = open_vocabulary("gpt-2", NULL, &error);
	assert_false(tokenizer_adds_bos(t));
	tokenizer_free(t);
}

/* ---- broken files ------------------------------------------------------------------------------- */

static void expect_json_error(const char* json, const char* config, const char* part) {
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_json(json, strlen(json), config, &error);
	if (t)
		fail_msg("accepted: %s", json);
	if (!strstr(error.message, part))
		fail_msg("%s\n  gives  \"%s\"\n  wanted \"%s\"", json, error.message, part);
}

#define MODEL(vocab, merges) "{\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}}"
#define WITH(section) "{" section ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}"

static void broken_json_gets_a_sentence(void** state) {
	(void)state;
	expect_json_error("", NULL, "tokenizer.json");
	expect_json_error("[1, 2", NULL, "tokenizer.json");
	expect_json_error("{}", NULL, "model");
	expect_json_error("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", NULL, "WordPiece");
	expect_json_error(MODEL("{\"a\":0,\"b\":0}", "[]"), NULL, "id 0 is given to two pieces");
	expect_json_error(MODEL("{\"a\":0,\"a\":1}", "[]"), NULL,
	                  "pieces 0 and 1 of the vocabulary are the same");
	expect_json_error(MODEL("{\"\":0}", "[]"), NULL, "piece 0 of the vocabulary is empty");
	expect_json_error(MODEL("{\"a\":-1}", "[]"), NULL, "\"a\": expected an id");
	expect_json_error(MODEL("{\"a\":1e300}", "[]"), NULL, "\"a\": expected an id");
	expect_json_error(MODEL("{\"a\":8288896}", "[]"), NULL, "has id 8288896, expected 0 to 65536");
	expect_json_error(MODEL("{}", "[]"), NULL, "no pieces");
	expect_json_error(MODEL("{\"a\":0}", "[\"a b\"]"), NULL, "merge 0: \"b\" is not a piece");
	expect_json_error(MODEL("{\"a\":0,\"b\":1}", "[\"a b\"]"), NULL, "join to text that is not a piece");
	expect_json_error(MODEL("{\"a\":0}", "[\"a\"]"), NULL, "two pieces with a space");
	expect_json_error(MODEL("{\"a\":0}", "[[\"a\"]]"), NULL, "merges");
	expect_json_error(WITH("\"normalizer\":{\"type\":\"Precompiled\"}"), NULL,
	                  "\"Precompiled\" is not supported");
	expect_json_error(WITH("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"), NULL, "UnicodeScripts");
	expect_json_error(WITH("\"decoder\":{\"type\":\"CTC\"}"), NULL, "CTC");
	expect_json_error(WITH("\"post_processor\":{\"type\":\"Odd\"}"), NULL, "Odd");
	expect_json_error(WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"}}"), NULL,
	                  "(a");
	expect_json_error(WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[[:vowel:]]\"}}"),
	                  NULL, "[:vowel:]");
	expect_json_error(WITH("\"added_tokens\":[{\"id\":0,\"content\":\"b\"}]"), NULL,
	                  "but model.vocab has \"a\"");
	expect_json_error(WITH("\"added_tokens\":[{\"id\":99999999999,\"content\":\"b\"}]"), NULL,
	                  "added_tokens");
	expect_json_error(WITH("\"version\":1"), "{\"bos_token\":\"<s>\"}", "bos_token is \"<s>\"");
	expect_json_error(WITH("\"version\":1"), "[", "tokenizer_config.json");
	expect_json_error("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1e999]]}}", NULL,
	                  "score of piece 0");
	expect_json_error("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", NULL, "entry 0");
}

static void deep_json_gets_a_sentence(void** state) {
	(void)state;
	size_t depth = 1000000;
	char* json = malloc(depth + 1);
	memset(json, '[', depth);
	json[depth] = 0;
	expect_json_error(json, NULL, "nested");
	free(json);
}

static void expect_model_error(const uint8_t* data, size_t size, const char* part) {
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_sentencepiece(data, size, NULL, &error);
	assert_null(t);
	if (!strstr(error.message, part))
		fail_msg("gives \"%s\", wanted \"%s\"", error.message, part);
}

static void broken_models_get_a_sentence(void** state) {
	(void)state;
	expect_model_error((const uint8_t*)"", 0, "holds no pieces");
	expect_model_error((const uint8_t*)"\x0a\x05\x0a\x01", 4, "reaches past the end");
	expect_model_error((const uint8_t*)"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11,
	                   "reaches past the end");
	expect_model_error((const uint8_t*)"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11,
	                   "longer than 64 bits");
	expect_model_error((const uint8_t*)"\x0b", 1, "wire type");
	expect_model_error((const uint8_t*)"\x0a\x03\x0a\x01"
	                                   "a\x0a\x03\x0a\x01"
	                                   "a",
	                   10, "are the same, \"a\"");
	expect_model_error((const uint8_t*)"\x0a\x02\x18\x09", 4, "type 9");
	expect_model_error((const uint8_t*)"\x0a\x02\x18\x01", 4, "piece 0 of the vocabulary is empty");
	struct file_bytes file = read_source("core/builtin/tokenizer.model");
	for (size_t size = 0; size < 400; size++) { /* cut anywhere: read or refused */
		struct error error = {""};
		struct tokenizer* t = tokenizer_from_sentencepiece((const uint8_t*)file.data, size, NULL, &error);
		assert_true(t || error.message[0]);
		tokenizer_free(t);
	}
	free(file.data);
}

static void folders_name_what_is_missing(void** state) {
	(void)state;
	char folder[4096];
	struct error error = {""};
	snprintf(folder, sizeof folder, "%s/tests", getenv("SWIFTLET_SOURCE"));
	assert_null(tokenizer_open_folder(folder, 0, &error));
	assert_non_null(strstr(error.message, "expected tokenizer.json, tokenizer.model or tekken.json"));
	snprintf(folder, sizeof folder, "%s/core/builtin", getenv("SWIFTLET_SOURCE"));
	assert_null(tokenizer_open_folder(folder, 100, &error));
	assert_non_null(strstr(error.message, "ids up to 4095, but the model's vocabulary ends at 99"));
	struct tokenizer* t = tokenizer_open_folder(folder, 4096, &error);
	assert_non_null(t);
	assert_true(tokenizer_adds_bos(t));
	tokenizer_free(t);
}

static void unknown_gguf_vocabularies_are_named(void** state) {
	(void)state;
	struct error error = {""};
	assert_null(open_vocabulary("gpt-2", "hieroglyphs", &error));
	assert_non_null(strstr(error.message, "\"hieroglyphs\" is not supported"));
	assert_non_null(strstr(error.message, "qwen2"));
	struct gguf_vocabulary v = {.model = "bert", .bos = -1, .eos = -1, .unknown = -1};
	assert_null(tokenizer_from_gguf(&v, &error));
	assert_non_null(strstr(error.message, "bert"));
}

/* The unknown token of a file is often a special token: no text makes one out of bytes that the vocabulary
 * lacks.
 */
static void gguf_bytes_without_a_piece_are_dropped(void** state) {
	(void)state;
	static const char* const piece[] = {"<|endoftext|>", "a", "b"};
	static const size_t size[] = {13, 1, 1};
	static const int32_t type[] = {3, 1, 1};
	const struct gguf_vocabulary v = {.model = "gpt2",
	                                  .pre = "smollm",
	                                  .n = 3,
	                                  .piece = piece,
	                                  .piece_size = size,
	                                  .type = type,
	                                  .bos = -1,
	                                  .eos = 0,
	                                  .unknown = 0,
	                                  .add_bos = -1,
	                                  .add_eos = -1,
	                                  .add_space_prefix = -1,
	                                  .remove_extra_whitespaces = -1};
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_gguf(&v, &error);
	if (!t)
		fail_msg("%s", error.message);
	expect_ids(t,
	           "a\x04"
	           "b",
	           0, (int32_t[]){1, 2}, 2);
	expect_ids(t, "a<|endoftext|>b", 0, (int32_t[]){1, 0, 2}, 3);
	tokenizer_free(t);
}

/* Each step writes ten times what it reads: a thousand million bytes at the end. */
static void texts_grow_within_bounds(void** state) {
	(void)state;
#define TEN "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaa\"}"
#define TENS TEN "," TEN "," TEN "," TEN "," TEN
	static const char text[] =
	    WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" TENS "," TENS "]}");
	static const char tame[] = WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" TEN "]}");
	struct error error = {""};
	struct token_list ids = {0};
	struct tokenizer* t = tokenizer_from_json(text, sizeof text - 1, NULL, &error);
	assert_non_null(t);
	assert_false(tokenizer_encode(t, "a", 1, 0, &ids));
	tokenizer_free(t);
	t = tokenizer_from_json(tame, sizeof tame - 1, NULL, &error);
	assert_true(tokenizer_encode(t, "aaa", 3, 0, &ids));
	assert_int_equal(ids.n, 30);
	token_list_free(&ids);
	tokenizer_free(t);
}

/* ---- time --------------------------------------------------------------------------------------- */

/* A text that makes matchers and mergers work. */
static char* hostile_text(int kind, size_t size) {
	static const char* const unit[] = {" ", "a",   "1",     "\n",  " \n",  " a", "\xc2\xa0",
	                                   "'", "ab ", "a\xff", "...", "\t x", "=-", "\r\n"};
	if (kind >= (int)(sizeof unit / sizeof unit[0]))
		return NULL;
	char* text = malloc(size + 1);
	size_t length = strlen(unit[kind]);
	for (size_t i = 0; i < size; i++)
		text[i] = unit[kind][i % length];
	text[size - 1] = 'x'; /* so that white space does not end the text */
	text[size] = 0;
	return text;
}

static void no_text_takes_long(void** state) {
	(void)state;
	const char* full = getenv("SWIFTLET_FULL");
	const size_t size = full && strcmp(full, "1") == 0 ? 1000000 : SANITIZED ? 20000 : 200000;
	bool scored;
	const char* name;
	struct tokenizer* t;
	double worst = 0;
	for (int which = 0; (t = open_lossless(which, &scored, &name)) != NULL; which++) {
		char* text;
		for (int kind = 0; (text = hostile_text(kind, size)) != NULL; kind++) {
			struct token_list ids = {0};
			clock_t start = clock();
			assert_true(tokenizer_encode(t, text, size, 0, &ids));
			double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
			if (seconds > 5) /* a hundred times what it takes; a sanitizer slows ten times */
				fail_msg("%s: kind %d took %.1f s", name, kind, seconds);
			worst = seconds > worst ? seconds : worst;
			token_list_free(&ids);
			free(text);
		}
		tokenizer_free(t);
	}
	print_message("slowest of %zu bytes: %.2f s\n", size, worst);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(any_bytes_come_back),
	    cmocka_unit_test(streams_come_back),
	    cmocka_unit_test(text_comes_in_whole_characters),
	    cmocka_unit_test(malformed_text_is_replaced),
	    cmocka_unit_test(bytes_print_as_bytes_and_ids),
	    cmocka_unit_test(special_tokens_are_recognised_when_asked),
	    cmocka_unit_test(added_tokens_obey_their_flags),
	    cmocka_unit_test(texts_grow_within_bounds),
	    cmocka_unit_test(any_character_stands_for_a_space),
	    cmocka_unit_test(gguf_vocabularies_keep_their_habits),
	    cmocka_unit_test(gguf_honours_its_white_space),
	    cmocka_unit_test(broken_json_gets_a_sentence),
	    cmocka_unit_test(deep_json_gets_a_sentence),
	    cmocka_unit_test(broken_models_get_a_sentence),
	    cmocka_unit_test(folders_name_what_is_missing),
	    cmocka_unit_test(unknown_gguf_vocabularies_are_named),
	    cmocka_unit_test(gguf_bytes_without_a_piece_are_dropped),
	    cmocka_unit_test(no_text_takes_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
