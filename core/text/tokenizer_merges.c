/* BPE's list of merges, and vocab.json with merges.txt, its oldest home. */
#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"
#include "core/text/pretokenize_named.h"
#include "core/text/tokenizer_config.h"
#include "core/text/tokenizer_json.h"
#include "core/text/tokenizer_parts.h"

enum { MAX_MERGES = 1 << 25 };

static size_t place_of(const struct merges* m, int32_t left, int32_t right) {
	uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
	key *= 0x9e3779b97f4a7c15u;
	key ^= key >> 29;
	size_t at = (size_t)key & (m->n_slots - 1);
	while (m->slot[at].left >= 0 && (m->slot[at].left != left || m->slot[at].right != right))
		at = (at + 1) & (m->n_slots - 1);
	return at;
}

const struct merge* merges_find(const struct merges* m, int32_t left, int32_t right) {
	if (m->n_slots == 0)
		return NULL;
	const struct merge* found = &m->slot[place_of(m, left, right)];
	return found->left >= 0 ? found : NULL;
}

bool tokenizer_start_merges(struct tokenizer* t, size_t n, struct error* error) {
	if (n > MAX_MERGES)
		return error_set(error, "%zu merges, expected at most %d", n, MAX_MERGES);
	size_t slots = 16;
	while (slots < n * 2)
		slots *= 2;
	t->merges.slot = malloc(slots * sizeof *t->merges.slot);
	if (!t->merges.slot)
		return error_set(error, "no memory for %zu merges", n);
	t->merges.n_slots = slots;
	for (size_t i = 0; i < slots; i++)
		t->merges.slot[i].left = -1;
	return true;
}

static int shown(size_t size) { return (int)(size < 60 ? size : 60); }

bool tokenizer_add_merge(struct tokenizer* t, const char* left, size_t left_size, const char* right,
                         size_t right_size, struct error* error) {
	const struct vocabulary* v = &t->vocabulary;
	size_t rank = t->merges.n++;
	int32_t a = vocabulary_find(v, left, left_size), b = vocabulary_find(v, right, right_size);
	if (a < 0 || b < 0)
		return error_set(error, "merge %zu: \"%.*s\" is no piece of the vocabulary", rank,
		                 shown(a < 0 ? left_size : right_size), a < 0 ? left : right);
	struct buffer joint = {0};
	buffer_add(&joint, left, left_size);
	buffer_add(&joint, right, right_size);
	int32_t id = joint.failed ? -1 : vocabulary_find(v, joint.data, joint.size);
	buffer_free(&joint);
	if (id < 0)
		return error_set(error, "merge %zu: \"%.*s\" and \"%.*s\" join to what is no piece of the vocabulary",
		                 rank, shown(left_size), left, shown(right_size), right);
	uint8_t type = v->piece[id].type;
	struct merge* slot = &t->merges.slot[place_of(&t->merges, a, b)];
	if (slot->left < 0 && type != PIECE_CONTROL && type != PIECE_UNKNOWN)
		*slot = (struct merge){.left = a, .right = b, .id = id, .rank = (uint32_t)rank};
	return true;
}

bool tokenizer_add_merge_line(struct tokenizer* t, const char* line, size_t size, struct error* error) {
	/* From the second byte on, for a piece may itself begin with a space in a careless file. */
	const char* space = size > 1 ? memchr(line + 1, ' ', size - 1) : NULL;
	if (!space || space + 1 == line + size)
		return error_set(error, "merge %zu: \"%.*s\", expected two pieces with a space between", t->merges.n,
		                 shown(size), line);
	size_t left = (size_t)(space - line);
	return tokenizer_add_merge(t, line, left, space + 1, size - left - 1, error);
}

/* ---- vocab.json and merges.txt ------------------------------------------------------------- */

static size_t count_lines(const char* text, size_t size) {
	size_t n = 1;
	for (size_t i = 0; i < size; i++)
		n += text[i] == '\n';
	return n;
}

static bool read_merges(struct tokenizer* t, const char* text, size_t size, struct error* error) {
	if (!tokenizer_start_merges(t, count_lines(text, size), error))
		return false;
	bool first = true;
	for (size_t at = 0; at < size;) {
		const char* end = memchr(text + at, '\n', size - at);
		size_t length = end ? (size_t)(end - text) - at : size - at;
		const char* line = text + at;
		at += length + (end ? 1 : 0);
		if (length > 0 && line[length - 1] == '\r')
			length--;
		bool version = first && length >= 9 && memcmp(line, "#version:", 9) == 0;
		first = false;
		if (length > 0 && !version && !tokenizer_add_merge_line(t, line, length, error))
			return tokenizer_fail_in("merges.txt", error);
	}
	return true;
}

static bool fill(struct tokenizer* t, const cJSON* vocab, const struct tokenizer_file* merges,
                 const struct tokenizer_config* config, struct error* error) {
	if (!tokenizer_json_read_pieces(t, vocab, "vocab.json", error) ||
	    !tokenizer_config_add_tokens(config, t, error))
		return false;
	int32_t id = -1;
	for (int i = 0; i < t->vocabulary.n && id < 0; i++)
		if (t->vocabulary.piece[i].text_size == 13 &&
		    memcmp(vocabulary_text(&t->vocabulary, i), "<|endoftext|>", 13) == 0)
			id = i;
	/* These files flag nothing; GPT-2's one special token is known by its name. */
	if (id >= 0 && t->vocabulary.piece[id].type == PIECE_NORMAL)
		t->vocabulary.piece[id].type = PIECE_CONTROL;
	if (config->add_prefix_space == 1) {
		struct step* step = steps_add_text(&t->pretokenizer, STEP_PREPEND, NULL, " ", error);
		if (!step)
			return false;
		step->unless_there = true;
		t->drops_first_space = true;
	}
	if (!steps_add_split(&t->pretokenizer, pretokenize_gpt2, SPLIT_ISOLATED, false, error) ||
	    !steps_add(&t->pretokenizer, STEP_BYTE_LEVEL, error) || !tokenizer_print_byte_level(t, error) ||
	    !vocabulary_seal(&t->vocabulary, error))
		return false;
	t->bos = t->eos = id;
	return read_merges(t, merges->data, merges->size, error);
}

/* The source: vocab.json, merges.txt. */
static bool read(struct tokenizer* t, const struct tokenizer_config* config, const void* source,
                 struct error* error) {
	const struct tokenizer_file* file = source;
	cJSON* vocab = json_parse(file[0].data, file[0].size, "vocab.json", error);
	const bool good = vocab && fill(t, vocab, &file[1], config, error);
	cJSON_Delete(vocab);
	return good;
}

struct tokenizer* tokenizer_from_merges(const char* vocab_json, size_t vocab_size, const char* merges,
                                        size_t merges_size, const char* config_text, struct error* error) {
	const struct tokenizer_file file[] = {{vocab_json, vocab_size}, {merges, merges_size}};
	return tokenizer_make(TOKENIZER_RANKED, config_text, read, file, error);
}
