/* The last steps of every reader of a tokenizer: bytes, printed forms, order of merging, added tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text/byte_level.h"
#include "core/text/tokenizer_json.h"

static struct tokenizer* tokenizer_new(struct error* error) {
	struct tokenizer* t = calloc(1, sizeof *t);
	if (!t) {
		error_set(error, "out of memory for a tokenizer");
		return NULL;
	}
	t->bos = t->eos = t->unknown = -1;
	vocabulary_start(&t->vocabulary);
	added_tokens_start(&t->raw);
	added_tokens_start(&t->normalized);
	added_tokens_start(&t->trie);
	return t;
}

void tokenizer_free(struct tokenizer* t) {
	if (!t)
		return;
	vocabulary_free(&t->vocabulary);
	added_tokens_free(&t->raw);
	added_tokens_free(&t->normalized);
	added_tokens_free(&t->trie);
	steps_free(&t->normalizer);
	steps_free(&t->pretokenizer);
	free(t->merges.slot);
	free(t->merges.seen);
	free(t->character);
	free(t->touching);
	free(t);
}

/* Decodes pieces as the alphabet spells them. A piece that does not decode prints its own text, and makes the
 * result false. */
static bool print_pieces(struct tokenizer* t,
                         bool (*spell)(struct buffer*, const struct piece*, const char* text),
                         struct error* error) {
	struct vocabulary* v = &t->vocabulary;
	struct buffer work = {0};
	for (int id = 0; id < v->n && !work.failed; id++) {
		struct piece* p = &v->piece[id];
		work.size = 0;
		const bool spelled = spell(&work, p, vocabulary_text(v, id));
		if (!spelled || (work.size == p->n_printed &&
		                 (work.size == 0 || !memcmp(work.data, v->store.data + p->printed, work.size))))
			continue;
		p->printed = v->store.size;
		p->n_printed = work.size;
		buffer_add(&v->store, work.data, work.size);
	}
	const bool good = !work.failed && !v->store.failed;
	buffer_free(&work);
	return good || error_set(error, "out of memory for the vocabulary");
}

static bool spell_sentencepiece(struct buffer* out, const struct piece* p, const char* text) {
	if (p->type == PIECE_BYTE) {
		const int byte = piece_byte(text, p->text_size);
		const char c = (char)(uint8_t)byte;
		buffer_add(out, &c, 1);
		return byte >= 0;
	}
	for (size_t at = 0, length; at < p->text_size; at += length) {
		const bool block = p->text_size - at >= 3 && memcmp(text + at, "\xe2\x96\x81", 3) == 0;
		length = block ? 3 : 1;
		buffer_add(out, block ? " " : text + at, 1);
	}
	return p->type == PIECE_NORMAL || p->type == PIECE_USER_DEFINED || p->type == PIECE_UNUSED;
}

bool tokenizer_print_sentencepiece(struct tokenizer* t, struct error* error) {
	return print_pieces(t, spell_sentencepiece, error);
}

static bool spell_byte_level(struct buffer* out, const struct piece* p, const char* text) {
	return (p->type == PIECE_NORMAL || p->type == PIECE_UNUSED) && byte_level_read(out, text, p->text_size);
}

bool tokenizer_print_byte_level(struct tokenizer* t, struct error* error) {
	return print_pieces(t, spell_byte_level, error);
}

bool tokenizer_space_as_block(struct tokenizer* t, enum prefix_scheme scheme, bool squeeze,
                              struct error* error) {
	struct steps* n = &t->normalizer;
	t->drops_first_space = scheme != PREFIX_NEVER;
	return (!squeeze || steps_add(n, STEP_SQUEEZE, error)) &&
	       steps_add_blocks(n, "\xe2\x96\x81", scheme, scheme == PREFIX_FIRST, error);
}

static bool check_scores(const struct vocabulary* v, struct error* error) {
	for (int id = 0; id < v->n; id++)
		if (!isfinite(v->piece[id].score))
			return error_set(error, "the score of piece %d is not a finite number", id);
	return true;
}

/* Usual names of special tokens, which some files forget to flag. */
static bool looks_special(const char* text, size_t size) {
	static const char bar[] = "\xef\xbd\x9c"; /* U+FF5C, DeepSeek's */
	if (size >= 5 && memcmp(text, "<|", 2) == 0 && memcmp(text + size - 2, "|>", 2) == 0)
		return true;
	return size >= 9 && text[0] == '<' && memcmp(text + 1, bar, 3) == 0 && text[size - 1] == '>' &&
	       memcmp(text + size - 4, bar, 3) == 0;
}

bool tokenizer_add_token(struct tokenizer* t, const char* content, size_t size, struct added_token token,
                         bool on_normalized, struct error* error) {
	token.special = token.special || looks_special(content, size);
	if (!on_normalized)
		return added_tokens_add(&t->raw, content, size, token, error);
	struct matcher matcher;
	struct walk walk = {.steps = &t->normalizer, .matcher = &matcher};
	if (!matcher_start(&matcher))
		return error_set(error, "out of memory for added tokens");
	const char* normal = steps_rewrite(&walk, false, content, &size);
	const bool good = walk.failed ? error_set(error, "out of memory for added tokens")
	                              : size == 0 || added_tokens_add(&t->normalized, normal, size, token, error);
	walk_end(&walk);
	matcher_end(&matcher);
	return good;
}

/* Adds the pieces that their file marks. Settings from a config stay. */
static bool register_added(struct tokenizer* t, struct error* error) {
	const struct vocabulary* v = &t->vocabulary;
	for (int id = 0; id < v->n; id++) {
		const struct piece* p = &v->piece[id];
		const bool special = piece_is_special(p);
		if (!special && (p->type != PIECE_USER_DEFINED || t->kind == TOKENIZER_UNIGRAM))
			continue; /* unigram scores user-defined pieces like the others */
		const char* text = vocabulary_text(v, id);
		struct added_token token = {.id = id, .special = special || looks_special(text, p->text_size)};
		if (!added_tokens_add(special ? &t->raw : &t->normalized, text, p->text_size, token, error))
			return false;
	}
	return true;
}

void tokenizer_default_end(const struct tokenizer* t, int32_t* end, const char* name, const char* other) {
	if (*end < 0)
		*end = tokenizer_find(t, name);
	if (*end < 0)
		*end = tokenizer_find(t, other);
}

static bool finish_tokenizer(struct tokenizer* t, struct error* error) {
	if (!t->vocabulary.slot && !vocabulary_seal(&t->vocabulary, error))
		return false;
	if (t->kind != TOKENIZER_RANKED && !check_scores(&t->vocabulary, error))
		return false;
	if (!(t->kind == TOKENIZER_UNIGRAM ? unigram_prepare(t, error) : bpe_prepare(t, error)))
		return false;
	return t->lists_added || register_added(t, error);
}

struct tokenizer* tokenizer_make(const char* config_text, tokenizer_reader* read, const void* source,
                                 size_t size, struct error* error) {
	static const char config_name[] = "tokenizer_config.json";
	cJSON* config = config_text ? json_parse(config_text, strlen(config_text), config_name, error) : NULL;
	if (config_text && !config)
		return NULL;
	struct tokenizer* t = NULL;
	if (config && !cJSON_IsObject(config))
		error_set(error, "%s: expected an object", config_name);
	else
		t = tokenizer_new(error);
	if (t && !(read(t, config, source, size, error) && finish_tokenizer(t, error) &&
	           tokenizer_config_apply(config, t, error))) {
		tokenizer_free(t);
		t = NULL;
	}
	cJSON_Delete(config);
	return t;
}

/* size: the number of ids. Bytes are pieces of GPT-2's alphabet that no merge makes. */
static bool read_bytes(struct tokenizer* t, const cJSON* config, const void* source, size_t size,
                       struct error* error) {
	const int n = (int)size;
	struct buffer text = {0};
	bool good = steps_add(&t->pretokenizer, STEP_BYTE_LEVEL, error) != NULL;
	(void)config;
	(void)source;
	t->kind = TOKENIZER_RANKED;
	for (int id = 0; id < n && good; id++) {
		char name[16];
		const char byte = (char)(uint8_t)id;
		text.size = 0;
		if (id < 256)
			byte_level_write(&text, &byte, 1);
		else
			buffer_add(&text, name, (size_t)snprintf(name, sizeof name, "<%d>", id));
		good =
		    !text.failed && vocabulary_set(&t->vocabulary, id, text.data, text.size, PIECE_NORMAL, 0, error);
	}
	buffer_free(&text);
	return good && tokenizer_print_byte_level(t, error);
}

struct tokenizer* tokenizer_bytes(int vocab) {
	struct error ignored;
	return tokenizer_make(NULL, read_bytes, NULL, vocab > 0 ? (size_t)vocab : 0, &ignored);
}

bool tokenizer_fail_in(const char* where, struct error* error) {
	if (!error)
		return false;
	const struct error inner = *error;
	return error_set(error, "%s: %s", where, inner.message);
}
