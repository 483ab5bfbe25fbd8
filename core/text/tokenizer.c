/* The tokenizer's entry points: from text to ids through the stages, and from ids to bytes. */
#include "core/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/text/tokenizer_parts.h"

void token_list_free(struct token_list* list) {
	free(list->id);
	*list = (struct token_list){0};
}

bool token_list_append(struct token_list* list, int32_t id) {
	if (list->n == INT32_MAX / 2 || !grow_by_one(&list->id, (size_t)list->n, sizeof *list->id))
		return false;
	list->id[list->n++] = id;
	return true;
}

void encoder_emit(struct encoder* e, int32_t id) {
	if (!encoder_done(e) && !token_list_append(e->out, id))
		e->failed = true;
}

/* ---- encoding ----------------------------------------------------------------------------- */

bool encoder_emit_unknown(struct encoder* e, const char* bytes, size_t size, bool after_unknown) {
	const struct tokenizer* t = e->tokenizer;
	bool have_all = t->byte_fallback;
	for (size_t i = 0; i < size && have_all; i++)
		have_all = t->vocabulary.byte[(uint8_t)bytes[i]] >= 0;
	if (have_all) {
		for (size_t i = 0; i < size; i++)
			encoder_emit(e, t->vocabulary.byte[(uint8_t)bytes[i]]);
		return false;
	}
	if (t->unknown >= 0 && !t->drops_unknown && !(after_unknown && t->fuse_unknown))
		encoder_emit(e, t->unknown);
	return true;
}

static bool encode_word(void* encoder, const char* word, size_t size) {
	struct encoder* e = encoder;
	if (e->tokenizer->kind == TOKENIZER_UNIGRAM)
		unigram_encode(e, word, size);
	else
		bpe_encode(e, word, size);
	return !encoder_done(e);
}

/* Emits the added tokens of a text and encodes the text between them. */
static void split_at_added(struct encoder* e, const struct added_tokens* added,
                           const struct plain_ranges* plain, const char* text, size_t size,
                           void (*encode)(struct encoder*, const char* text, size_t start, size_t end)) {
	size_t at = 0;
	struct added_match match;
	while (!encoder_done(e) && added_tokens_next(added, text, size, at, plain, &match)) {
		if (match.start > at)
			encode(e, text, at, match.start);
		encoder_emit(e, match.token->id);
		at = match.end;
	}
	if (!encoder_done(e) && at < size)
		encode(e, text, at, size);
}

/* Normalized text between added tokens. */
static void encode_stretch(struct encoder* e, const char* text, size_t start, size_t end) {
	steps_cut(&e->pretokenizer, e->normalizer.first && start == 0, text + start, end - start);
	e->failed |= e->pretokenizer.failed;
}

static const struct plain_ranges nowhere = {.range = NULL, .n = 0};
static const struct text_range all = {.start = 0, .end = SIZE_MAX};
static const struct plain_ranges everywhere = {.range = &all, .n = 1};

static const char* normalize_text(struct encoder* e, const char* text, size_t* size, bool first) {
	const char* normal = steps_rewrite(&e->normalizer, first, text, size);
	e->failed |= e->normalizer.failed;
	return normal;
}

/* Encodes text between two added tokens that lies entirely in or outside of the plain ranges. */
static void encode_uniform(struct encoder* e, const char* text, size_t size, const struct plain_ranges* plain,
                           bool first) {
	if (encoder_done(e))
		return;
	text = normalize_text(e, text, &size, first);
	split_at_added(e, &e->tokenizer->normalized, plain, text, size, encode_stretch);
}

/* True when normalizing the text creates a special token. */
static bool holds_special(struct encoder* e, const char* text, size_t size) {
	const struct added_tokens* added = &e->tokenizer->normalized;
	struct added_match match;
	text = normalize_text(e, text, &size, false);
	for (size_t at = 0; !e->failed && added_tokens_next(added, text, size, at, &nowhere, &match);
	     at = match.end)
		if (match.token->special)
			return true;
	return false;
}

/* The part of [start, end) that the next plain range, from *i on, covers. */
static bool next_plain(const struct plain_ranges* plain, size_t* i, size_t start, size_t end,
                       struct text_range* out) {
	while (*i < plain->n) {
		*out = plain->range[(*i)++];
		out->start = out->start > start ? out->start : start;
		out->end = out->end < end ? out->end : end;
		if (out->start < out->end)
			return true;
	}
	return false;
}

/* Encodes text[start, end) between two added tokens. Few tokenizers look for special tokens after
 * normalizing. There the plain ranges no longer apply, since they are positions in the text before it. So if
 * normalizing a plain range would create a special token, the segment is encoded stretch by stretch. */
static void encode_segment(struct encoder* e, const char* text, size_t start, size_t end) {
	const struct plain_ranges* plain = &e->plain;
	const bool all_plain = plain->range == &all;
	struct text_range part;
	bool risk = false;
	size_t at = start;
	if (!all_plain && e->tokenizer->normalized.has_special && plain_ranges_touch(plain, start, end))
		for (size_t i = 0; !risk && next_plain(plain, &i, start, end, &part);)
			risk = holds_special(e, text + part.start, part.end - part.start);
	for (size_t i = 0; risk && next_plain(plain, &i, start, end, &part); at = part.end) {
		if (part.start > at)
			encode_uniform(e, text + at, part.start - at, &nowhere, at == 0);
		encode_uniform(e, text + part.start, part.end - part.start, &everywhere, part.start == 0);
	}
	if (at < end)
		encode_uniform(e, text + at, end - at, all_plain ? &everywhere : &nowhere, at == 0);
}

bool tokenizer_encode_prompt(const struct tokenizer* t, const char* text, size_t size,
                             const struct plain_ranges* plain, struct token_list* out) {
	if (size > INT32_MAX / 4)
		return false;
	struct encoder e = {.tokenizer = t, .out = out, .plain = *plain};
	e.normalizer = (struct walk){.steps = &t->normalizer, .matcher = &e.matcher};
	e.pretokenizer =
	    (struct walk){.steps = &t->pretokenizer, .matcher = &e.matcher, .take = encode_word, .user = &e};
	e.failed = !matcher_start(&e.matcher) || !bpe_start(&e, size);
	split_at_added(&e, &t->raw, plain, text, size, encode_segment);
	matcher_end(&e.matcher);
	walk_end(&e.normalizer);
	walk_end(&e.pretokenizer);
	buffer_free(&e.kept);
	free(e.symbol);
	free(e.tail);
	free(e.joint);
	free(e.heap);
	free(e.lattice);
	return !e.failed;
}

static bool append_all(struct token_list* out, const struct id_list* ids) {
	for (int i = 0; i < ids->n && (out->limit == 0 || out->n < out->limit); i++)
		if (!token_list_append(out, ids->id[i]))
			return false;
	return true;
}

bool tokenizer_encode(const struct tokenizer* t, const char* text, size_t size, int flags,
                      struct token_list* out) {
	const struct plain_ranges* plain = flags & TOKENIZE_NO_SPECIAL ? &everywhere : &nowhere;
	bool ends = flags & TOKENIZE_ADD_SPECIAL;
	return (!ends || append_all(out, &t->before)) && tokenizer_encode_prompt(t, text, size, plain, out) &&
	       (!ends || append_all(out, &t->after));
}

/* ---- decoding ----------------------------------------------------------------------------- */

bool tokenizer_is_special(const struct tokenizer* t, int32_t id) {
	return id >= 0 && id < t->vocabulary.n && piece_is_special(&t->vocabulary.piece[id]);
}

const char* tokenizer_printed(const struct tokenizer* t, int32_t id, bool special, size_t* size) {
	*size = 0;
	if (id < 0 || id >= t->vocabulary.n || (!special && tokenizer_is_special(t, id)))
		return "";
	const struct piece* p = &t->vocabulary.piece[id];
	*size = p->n_printed;
	return t->vocabulary.store.data + p->printed;
}

size_t tokenizer_piece(const struct tokenizer* t, int32_t id, bool special, char* out, size_t capacity) {
	size_t size;
	const char* printed = tokenizer_printed(t, id, special, &size);
	if (size > 0 && capacity > 0)
		memcpy(out, printed, size < capacity ? size : capacity);
	return size;
}

char* tokenizer_decode(const struct tokenizer* t, const int32_t* id, int n, bool special, bool at_start,
                       size_t* size) {
	size_t total = 0;
	for (int i = 0; i < n; i++) {
		size_t more = tokenizer_piece(t, id[i], special, NULL, 0);
		if (more > SIZE_MAX - 1 - total)
			return NULL;
		total += more;
	}
	char* text = malloc(total + 1);
	if (!text)
		return NULL;
	size_t at = 0;
	bool first = true;
	for (int i = 0; i < n; i++) {
		size_t more;
		const char* printed = tokenizer_printed(t, id[i], special, &more);
		const bool dummy = first && at_start && t->drops_first_space && more > 0 && *printed == ' ';
		memcpy(text + at, printed + dummy, more - dummy);
		at += more - dummy;
		/* The dummy space precedes the first text, after any special tokens such as BOS. */
		first &= tokenizer_is_special(t, id[i]);
	}
	text[at] = 0;
	*size = at;
	return text;
}

/* ---- questions ---------------------------------------------------------------------------- */

int tokenizer_size(const struct tokenizer* t) { return t->vocabulary.n; }
int32_t tokenizer_bos(const struct tokenizer* t) { return t->bos; }
int32_t tokenizer_eos(const struct tokenizer* t) { return t->eos; }
bool tokenizer_adds_bos(const struct tokenizer* t) {
	for (int i = 0; i < t->before.n; i++)
		if (t->before.id[i] == t->bos)
			return true;
	return false;
}

int32_t tokenizer_find(const struct tokenizer* t, const char* piece) {
	return vocabulary_find(&t->vocabulary, piece, strlen(piece));
}

void tokenizer_digest(const struct tokenizer* t, void (*add)(void*, const void*, size_t), void* user) {
	for (int id = 0; id < t->vocabulary.n; id++) {
		const struct piece* p = &t->vocabulary.piece[id];
		add(user, vocabulary_text(&t->vocabulary, id), p->text_size);
		add(user, "", 1); /* separates pieces, so that two different lists cannot hash alike */
	}
}
