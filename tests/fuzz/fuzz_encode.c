/* Any bytes as text, under every pre-tokenizer: the ids decode to the same bytes, and the streaming
 * decoder gives only well-formed UTF-8, which is the text where the text is well-formed. The first byte
 * picks the tokenizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/utf8.h"
#include "core/text/byte_level.h"
#include "core/text/tokenizer.h"

enum { PIECES = 256 + 8 };

static const char* const pre[] = {"default",      "gpt-2",       "llama-bpe", "qwen2",
                                  "tekken",       "falcon",      "smollm",    "deepseek-coder",
                                  "deepseek-llm", "deepseek-v3", "llama"};
enum { KINDS = sizeof pre / sizeof pre[0] };

static struct tokenizer* make(const char* name) {
	static const char* const joined[] = {"th", "the", "in", "12", "\xe2\x96\x81", "<|end|>", "..", "ll"};
	static const char* const merges[] = {"t h", "th e", "i n", "1 2", ". .", "l l"};
	bool scored = strcmp(name, "llama") == 0;
	const char* piece[PIECES];
	size_t piece_size[PIECES], merge_size[6];
	float score[PIECES] = {0};
	int32_t type[PIECES];
	struct buffer store[256] = {{0}};
	for (int i = 0; i < 256; i++) {
		char byte = (char)(uint8_t)i, text[8];
		if (scored)
			buffer_add(&store[i], text, (size_t)snprintf(text, sizeof text, "<0x%02X>", (unsigned)i));
		else
			byte_level_write(&store[i], &byte, 1);
		piece[i] = store[i].data;
		piece_size[i] = store[i].size;
		type[i] = scored ? 6 : 1;
	}
	for (int i = 0; i < 8; i++) {
		piece[256 + i] = joined[i];
		piece_size[256 + i] = strlen(joined[i]);
		type[256 + i] = joined[i][0] == '<' ? 3 : 1;
		score[256 + i] = (float)-i;
	}
	for (int i = 0; i < 6; i++)
		merge_size[i] = strlen(merges[i]);
	struct gguf_vocabulary v = {.model = scored ? "llama" : "gpt2",
	                            .pre = name,
	                            .n = PIECES,
	                            .piece = piece,
	                            .piece_size = piece_size,
	                            .score = score,
	                            .type = type,
	                            .n_merges = 6,
	                            .merge = merges,
	                            .merge_size = merge_size,
	                            .bos = -1,
	                            .eos = -1,
	                            .unknown = -1,
	                            .add_bos = -1,
	                            .add_eos = -1,
	                            .add_space_prefix = -1,
	                            .remove_extra_whitespaces = -1};
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_gguf(&v, &error);
	if (!t) {
		fprintf(stderr, "%s\n", error.message);
		abort();
	}
	for (int i = 0; i < 256; i++)
		buffer_free(&store[i]);
	return t;
}

static bool well_formed(const char* text, size_t size) {
	for (size_t at = 0; at < size;) {
		size_t length = utf8_character(text + at, size - at, NULL);
		if (length == 0)
			return false;
		at += length;
	}
	return true;
}

static void check_stream(const struct tokenizer* t, const struct token_list* ids, const char* text,
                         size_t size, bool scored) {
	struct text_stream stream;
	struct buffer all = {0};
	enum { ROOM = 4096 };
	char* out = malloc(ROOM);
	text_stream_start(&stream, t);
	for (int i = 0; i < ids->n; i++) {
		size_t n = text_stream_add(&stream, ids->id[i], out, ROOM);
		if (!well_formed(out, n))
			abort();
		buffer_add(&all, out, n);
	}
	size_t n = text_stream_end(&stream, out, ROOM);
	buffer_add(&all, out, n);
	size_t extra = scored && size > 0 ? 1 : 0; /* sentencepiece's first space */
	if (well_formed(text, size) &&
	    (all.size != size + extra || (size > 0 && memcmp(all.data + extra, text, size) != 0)))
		abort();
	buffer_free(&all);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	static struct tokenizer* made[KINDS];
	if (size == 0)
		return 0;
	int kind = data[0] % KINDS;
	bool scored = strcmp(pre[kind], "llama") == 0;
	const char* text = (const char*)data + 1;
	size--;
	/* Sentencepiece cannot distinguish U+2581 from a space. */
	if (scored && memmem(text, size, "\xe2\x96\x81", 3))
		return 0;
	if (!made[kind])
		made[kind] = make(pre[kind]);
	struct token_list ids = {0};
	if (!tokenizer_encode(made[kind], text, size, TOKENIZE_NO_SPECIAL, &ids))
		abort();
	size_t length;
	char* back = tokenizer_decode(made[kind], ids.id, ids.n, true, true, &length);
	if (!back || length != size || memcmp(back, text, size) != 0)
		abort();
	check_stream(made[kind], &ids, text, size, scored);
	free(back);
	token_list_free(&ids);
	return 0;
}
