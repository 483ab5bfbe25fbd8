/* Reads tekken.json, Mistral's own format: special tokens, then pieces as bytes in order of their rank.
 *
 * Two neighbours merge if their joint bytes are a piece. The lowest rank merges first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/error_in.h"
#include "core/files/json.h"
#include "core/text/byte_level.h"
#include "core/text/tokenizer_parts.h"

static const char file[] = "tekken.json";

/* Older files do not list their special tokens. The unnamed ones are <SPECIAL_20>… */
static const char first_specials[] =
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] "
    "[/TOOL_RESULTS] [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] "
    "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]";

struct tekken {
	struct tokenizer* t;
	const cJSON *root, *config;
	int specials, size; /* ids of special tokens, ids altogether */
	struct error* error;
};
#define fail(k, ...) error_in((k)->error, file, __VA_ARGS__)

static bool read_sizes(struct tekken* k) {
	k->config = json_field(k->root, "config");
	if (!cJSON_IsObject(k->config))
		return fail(k, "config is missing");
	k->specials = 1000;
	k->size = 131072;
	if (!json_int32(k->config, file, "default_num_special_tokens", 0, MAX_GAPS, &k->specials, k->error) ||
	    !json_int32(k->config, file, "default_vocab_size", 1, MAX_VOCABULARY, &k->size, k->error))
		return false;
	return k->specials < k->size ||
	       fail(k, "default_num_special_tokens is %d: expected less than default_vocab_size %d", k->specials,
	            k->size);
}

/* ---- pieces ----------------------------------------------------------------------------------- */

/* Base64 with its padding (RFC 4648, section 4), into the byte alphabet. */
static bool decode_base64(struct buffer* out, const char* text) {
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const size_t n = strlen(text);
	uint32_t bits = 0;
	out->size = 0;
	if (n == 0 || n % 4 != 0)
		return false;
	const size_t padding = text[n - 1] != '=' ? 0 : text[n - 2] != '=' ? 1 : 2;
	for (size_t i = 0; i < n - padding; i++) {
		const char* const digit = strchr(alphabet, text[i]);
		if (!digit)
			return false;
		bits = bits << 6 | (uint32_t)(digit - alphabet);
		const char byte = (char)(bits >> (6 - 2 * (i % 4)));
		byte_level_write(out, &byte, i % 4 != 0);
	}
	return true;
}

static bool add_piece(struct tekken* k, const cJSON* entry, int64_t rank, struct buffer* text) {
	const cJSON* encoded = json_field(entry, "token_bytes");
	if (!cJSON_IsString(encoded) || !decode_base64(text, encoded->valuestring))
		return fail(k, "vocab: token_bytes of rank %lld is missing or not base64", (long long)rank);
	if (text->failed)
		return fail(k, "out of memory for the vocabulary");
	return vocabulary_set(&k->t->vocabulary, k->specials + rank, text->data, text->size, PIECE_NORMAL,
	                      -(double)rank, k->error);
}

static bool read_pieces(struct tekken* k) {
	const cJSON *list = json_field(k->root, "vocab"), *entry;
	struct buffer text = {0};
	bool good = true;
	if (!cJSON_IsArray(list))
		return fail(k, "vocab is not an array");
	vocabulary_expect(&k->t->vocabulary, cJSON_GetArraySize(list));
	for (entry = list->child; entry && good; entry = entry->next) {
		int64_t rank;
		good = json_whole(json_field(entry, "rank"), 0, MAX_VOCABULARY - 1, &rank) ||
		       fail(k, "vocab: an entry has no rank");
		if (good && rank < k->size - k->specials)
			good = add_piece(k, entry, rank, &text);
	}
	buffer_free(&text);
	return good;
}

/* ---- special tokens --------------------------------------------------------------------------- */

static bool add_special(struct tekken* k, int64_t rank, const char* text) {
	return vocabulary_set(&k->t->vocabulary, rank, text, strlen(text), PIECE_CONTROL, 0, k->error);
}

static bool read_listed(struct tekken* k, const cJSON* list) {
	const cJSON* entry;
	vocabulary_expect(&k->t->vocabulary, k->specials);
	cJSON_ArrayForEach (entry, list) {
		const cJSON* text = json_field(entry, "token_str");
		int64_t rank;
		if (!json_whole(json_field(entry, "rank"), 0, k->specials - 1, &rank) || !cJSON_IsString(text))
			return fail(k, "special_tokens: an entry has no token_str, or no rank below %d", k->specials);
		if (!add_special(k, rank, text->valuestring))
			return false;
	}
	return true;
}

/* Ids that the file does not describe are special tokens without a use. */
static bool fill_specials(struct tekken* k, bool listed) {
	const char* named = listed ? "" : first_specials;
	for (int id = 0; id < k->specials; id++) {
		char name[32];
		const int size = (int)strcspn(named, " ");
		if (size)
			snprintf(name, sizeof name, "%.*s", size, named);
		else
			snprintf(name, sizeof name, "<SPECIAL_%d>", id);
		named += size + (named[size] == ' ');
		if (id < k->t->vocabulary.n && k->t->vocabulary.piece[id].type != PIECE_ABSENT)
			continue;
		if (!add_special(k, id, name))
			return false;
	}
	return true;
}

static bool read_specials(struct tekken* k) {
	const cJSON* list = json_field(k->root, "special_tokens");
	if (list && !cJSON_IsArray(list))
		return fail(k, "special_tokens is not an array");
	return (!list || read_listed(k, list)) && fill_specials(k, list != NULL);
}

/* ---- the whole -------------------------------------------------------------------------------- */

static bool fill_vocabulary(struct tekken* k) {
	const cJSON* pattern = json_field(k->config, "pattern");
	struct tokenizer* t = k->t;
	t->kind = TOKENIZER_SCORED;
	if (!cJSON_IsString(pattern))
		return fail(k, "config.pattern is missing");
	/* Special tokens come first, so that ids are set in order. */
	if (!read_specials(k) || !read_pieces(k) ||
	    !steps_add_split(&t->pretokenizer, pattern->valuestring, true, SPLIT_ISOLATED, k->error) ||
	    !steps_add(&t->pretokenizer, STEP_BYTE_LEVEL, k->error) || !tokenizer_print_byte_level(t, k->error) ||
	    !vocabulary_seal(&t->vocabulary, k->error))
		return false;
	t->merges_pieces = true;
	t->ignore_merges = true;
	t->unknown = tokenizer_find(t, "<unk>");
	t->bos = tokenizer_find(t, "<s>");
	t->eos = tokenizer_find(t, "</s>");
	if (t->bos >= 0)
		t->before = (struct id_list){{t->bos}, 1};
	return true;
}

static bool read_tokenizer(struct tokenizer* t, const cJSON* config, const void* source, size_t size,
                           struct error* error) {
	cJSON* root = json_parse(source, size, file, error);
	struct tekken k = {.t = t, .root = root, .error = error};
	(void)config;
	const bool good = root && read_sizes(&k) && fill_vocabulary(&k);
	cJSON_Delete(root);
	return good;
}

struct tokenizer* tokenizer_from_tekken(const void* data, size_t size, const char* config,
                                        struct error* error) {
	return tokenizer_make(config, read_tokenizer, data, size, error);
}
