/* Byte-pair merging: of all neighbours that may merge, the best pair merges first, and of equal pairs the
 * leftmost.
 *
 * A pair is looked up by its joint text and ordered by the piece's score, or looked up in the list of merges
 * and ordered by rank. Few symbols are searched one by one. More are merged in rounds, all pairs of the best
 * order together, as long as that order is frequent. After that, pairs wait in a heap of (order, place).
 *
 * A word is split between two characters that are neighbours in no piece, since nothing can merge there.
 *
 * A long part is merged in overlapping spans, so that the work stays in the cache and its time grows
 * linearly. This is exact, because the next merge within a stretch depends on that stretch alone:
 * - Neighbouring tokens of an encoding are the encoding of their joint text.
 * - If every two neighbours of a list of pieces are the encoding of their joint text, the list is the
 * encoding of the whole: the first merge across a border would also be the first one between its two
 * neighbours. So if two spans share a token, the first span's tokens up to it and the second's from it on
 * encode both. */
#include "core/text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"
#include "core/text/byte_level.h"

enum {
	FEW = 20,      /* symbols that are searched one by one */
	FREQUENT = 32, /* a round pays that merges one of so many symbols */
	SPAN = 1024,   /* bytes */
	CHILDREN = 4,  /* of a key in the heap */
	OVERLAPS = 8,  /* an overlap is this part of a span */
	GROWTH = 4,    /* of spans that did not meet */
	FEWEST_JOINTS = 64,
	MOST_JOINTS = 1 << 14,
	DIRECT_CHARACTERS = 512, /* GPT-2's alphabet and Latin */
	TOUCHING_BITS = 1 << 19
};

static const uint64_t no_key = UINT64_MAX;
#define NEVER UINT32_MAX /* the order of a pair that does not merge */

/* ---- characters ------------------------------------------------------------------------------- */

/* Bytes of the character at text. A malformed byte counts as 1, with a code beyond all characters. */
static size_t read_character(const char* text, size_t size, uint32_t* code) {
	const size_t length = utf8_character(text, size, code);
	if (length == 0)
		*code = 0x110000 + (uint8_t)*text;
	return length ? length : 1;
}

static uint32_t hash_touching(uint32_t left, uint32_t right) {
	const uint64_t both = ((uint64_t)left << 21 | right) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(both >> 40) % TOUCHING_BITS;
}

static void add_touching(struct tokenizer* t, const char* text, size_t size) {
	uint32_t left = 0, right;
	for (size_t at = 0; at < size; left = right) {
		const bool first = at == 0;
		at += read_character(text + at, size - at, &right);
		const uint32_t hash = hash_touching(left, right);
		if (!first)
			t->touching[hash / 64] |= UINT64_C(1) << hash % 64;
	}
}

static int32_t piece_of(const struct tokenizer* t, const char* text, size_t size, uint32_t code) {
	return code < DIRECT_CHARACTERS ? t->character[code] : vocabulary_find_plain(&t->vocabulary, text, size);
}

/* Whether every byte has a piece of one letter, where texts are written in GPT-2's alphabet. */
static bool knows_all_bytes(const struct tokenizer* t) {
	const struct steps* const s = &t->pretokenizer;
	struct buffer letter = {0};
	bool all = s->n > 0 && s->step[s->n - 1].kind == STEP_BYTE_LEVEL;
	for (int byte = 0; all && byte < 256; byte++) {
		const char c = (char)(uint8_t)byte;
		letter.size = 0;
		byte_level_write(&letter, &c, 1);
		all = !letter.failed && vocabulary_find_plain(&t->vocabulary, letter.data, letter.size) >= 0;
	}
	buffer_free(&letter);
	return all;
}

bool bpe_prepare(struct tokenizer* t, struct error* error) {
	const struct vocabulary* v = &t->vocabulary;
	t->character = malloc(DIRECT_CHARACTERS * sizeof *t->character);
	t->touching = calloc(TOUCHING_BITS / 64, sizeof *t->touching);
	if (!t->character || !t->touching)
		return error_set(error, "out of memory for a tokenizer");
	for (uint32_t code = 0; code < DIRECT_CHARACTERS; code++) {
		char text[4];
		t->character[code] = vocabulary_find_plain(v, text, utf8_put(code, text));
	}
	for (int32_t id = 0; id < v->n; id++)
		if (v->piece[id].type != PIECE_ABSENT)
			add_touching(t, vocabulary_text(v, id), v->piece[id].text_size);
	t->skips_unknown =
	    t->kind == TOKENIZER_RANKED && t->unknown < 0 && !t->drops_unknown && !knows_all_bytes(t);
	return true;
}

/* The end of the characters from `at` on of which every two neighbours touch in some piece. */
static size_t next_cut(const struct tokenizer* t, const char* word, size_t size, size_t at) {
	uint32_t left, right;
	size_t length;
	at += read_character(word + at, size - at, &left);
	for (; at < size; at += length, left = right) {
		length = read_character(word + at, size - at, &right);
		const uint32_t hash = hash_touching(left, right);
		if (!(t->touching[hash / 64] >> hash % 64 & 1))
			break;
	}
	return at;
}

/* ---- pairs ------------------------------------------------------------------------------------ */

/* Maps a float to an integer that grows as the score falls. */
static uint32_t order_of_score(float score) {
	uint32_t bits;
	const float plain = score + 0.0f; /* -0 and 0 are equal scores */
	memcpy(&bits, &plain, sizeof bits);
	const uint32_t order = bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
	return order < NEVER ? order : NEVER - 1;
}

bool bpe_start(struct encoder* e, size_t size) {
	e->n_joints = FEWEST_JOINTS;
	while (e->n_joints < size && e->n_joints < MOST_JOINTS)
		e->n_joints *= 2;
	e->joint = malloc(e->n_joints * sizeof *e->joint);
	for (size_t i = 0; e->joint && i < e->n_joints; i++)
		e->joint[i] = (struct joint){.left = -1, .id = -1};
	return e->joint;
}

static struct joint look_up(const struct tokenizer* t, const char* text, const struct symbol* a,
                            const struct symbol* b) {
	struct joint joint = {.left = a->id, .right = b->id, .id = -1, .order = NEVER};
	const bool pieces = a->id >= 0 && b->id >= 0;
	if (t->kind == TOKENIZER_RANKED) {
		const struct merge* merge = pieces ? merges_find(&t->merges, a->id, b->id) : NULL;
		joint.id = merge ? merge->id : -1;
		joint.order = merge ? merge->rank : NEVER;
	} else if (pieces || !t->merges_pieces) {
		joint.id = vocabulary_find_plain(&t->vocabulary, text, a->size + b->size);
		joint.order = joint.id < 0 ? NEVER : order_of_score((float)t->vocabulary.piece[joint.id].score);
	}
	return joint;
}

/* The piece that `a` and the symbol after it merge into. Frequent pairs are cached. A pair that does not
 * merge is found by one bit, so it takes no place from one that does. */
static void find_merge(struct encoder* e, const char* word, struct symbol* a, const struct symbol* b) {
	if (a->id < 0 || b->id < 0) {
		const struct joint joint = look_up(e->tokenizer, word + a->start, a, b);
		a->joint = joint.id;
		a->order = joint.order;
		return;
	}
	const uint32_t mixed = (uint32_t)a->id * 0x9e3779b1u ^ (uint32_t)b->id * 0x85ebca77u;
	struct joint* const known = &e->joint[(mixed ^ mixed >> 15) & (e->n_joints - 1)];
	struct joint joint = *known;
	if (joint.left != a->id || joint.right != b->id) {
		joint = look_up(e->tokenizer, word + a->start, a, b);
		if (joint.id >= 0 || known->id < 0)
			*known = joint;
	}
	a->joint = joint.id;
	a->order = joint.order;
}

/* ---- symbols ---------------------------------------------------------------------------------- */

/* Makes a symbol for each character that begins in word[from, to); a malformed byte is a symbol. False: no
 * memory. */
static bool split_characters(struct encoder* e, const char* word, size_t size, size_t from, size_t to) {
	const struct tokenizer* t = e->tokenizer;
	e->n_symbols = 0;
	if (!grow_to(&e->symbol, &e->symbol_capacity, to - from, sizeof *e->symbol)) {
		e->failed = true;
		return false;
	}
	for (size_t at = from; at < to;) {
		uint32_t code;
		const size_t length = read_character(word + at, size - at, &code);
		e->symbol[e->n_symbols++] = (struct symbol){
		    .start = (uint32_t)at, .size = (uint32_t)length, .id = piece_of(t, word + at, length, code)};
		at += length;
	}
	return true;
}

/* ---- a few symbols ---------------------------------------------------------------------------- */

static uint64_t key_of(const struct symbol* s, size_t place) {
	return s->order == NEVER ? no_key : (uint64_t)s->order << 32 | (uint32_t)place;
}

static void merge_few(struct encoder* e, const char* word) {
	struct symbol* const s = e->symbol;
	size_t n = e->n_symbols;
	for (size_t i = 0; i + 1 < n; i++)
		find_merge(e, word, &s[i], &s[i + 1]);
	for (;;) {
		uint64_t best = no_key;
		for (size_t i = 0; i + 1 < n; i++) {
			const uint64_t key = key_of(&s[i], i);
			best = key < best ? key : best;
		}
		if (best == no_key)
			break;
		const size_t at = (uint32_t)best;
		s[at].size += s[at + 1].size;
		s[at].id = s[at].joint;
		n--;
		memmove(&s[at + 1], &s[at + 2], (n - at - 1) * sizeof *s);
		if (at > 0)
			find_merge(e, word, &s[at - 1], &s[at]);
		if (at + 1 < n)
			find_merge(e, word, &s[at], &s[at + 1]);
	}
	e->n_symbols = n;
}

/* ---- many: rounds ----------------------------------------------------------------------------- */

/* Looks up what the symbol and the next one merge into; next: NULL at the end. */
static void look_ahead(struct encoder* e, const char* word, struct symbol* s, const struct symbol* next) {
	s->joint = -1;
	s->order = NEVER;
	if (next)
		find_merge(e, word, s, next);
}

/* Merges the pairs of the best order from left to right, up to a new pair that is as good or better, since
 * that one is next. Returns the number of merges. */
static size_t merge_round(struct encoder* e, const char* word) {
	struct symbol* const s = e->symbol;
	const size_t n = e->n_symbols;
	uint32_t best = NEVER;
	for (size_t i = 0; i < n; i++)
		best = s[i].order < best ? s[i].order : best;
	size_t kept = 0, i = 0;
	for (bool goes_on = best != NEVER; goes_on && i < n; i++) {
		struct symbol* const a = &s[kept++];
		*a = s[i];
		if (a->order != best)
			continue;
		a->size += s[++i].size;
		a->id = a->joint;
		look_ahead(e, word, a, i + 1 < n ? &s[i + 1] : NULL);
		if (kept > 1)
			look_ahead(e, word, a - 1, a);
		goes_on = a->order > best && (kept == 1 || a[-1].order > best);
	}
	memmove(&s[kept], &s[i], (n - i) * sizeof *s);
	e->n_symbols = kept + n - i;
	return n - e->n_symbols;
}

/* ---- many: a heap ------------------------------------------------------------------------------- */

/* Each key has four children, which halves the levels of a binary heap. The keys after the heap never
 * rise. */
static void sink_pair(uint64_t* heap, size_t n, size_t at, uint64_t key) {
	for (size_t child; (child = CHILDREN * at + 1) < n; at = child) {
		uint64_t least = heap[child];
		const size_t first = child;
		for (size_t i = first + 1; i < first + CHILDREN; i++) {
			child = heap[i] < least ? i : child;
			least = heap[i] < least ? heap[i] : least;
		}
		if (least >= key)
			break;
		heap[at] = least;
	}
	heap[at] = key;
}

static uint64_t heap_pop(struct encoder* e) {
	const uint64_t top = e->heap[0];
	const uint64_t last = e->heap[--e->n_heap];
	e->heap[e->n_heap] = no_key;
	if (e->n_heap > 0)
		sink_pair(e->heap, e->n_heap, 0, last);
	return top;
}

static void heap_push(struct encoder* e, uint64_t key) {
	size_t at = e->n_heap++;
	for (; at > 0 && key < e->heap[(at - 1) / CHILDREN]; at = (at - 1) / CHILDREN)
		e->heap[at] = e->heap[(at - 1) / CHILDREN];
	e->heap[at] = key;
}

/* Recomputes the pair (left, its right neighbour), and queues it if it may merge. */
static void consider_pair(struct encoder* e, const char* word, int32_t left) {
	if (left < 0)
		return;
	struct symbol* const a = &e->symbol[left];
	look_ahead(e, word, a, a->next < 0 ? NULL : &e->symbol[a->next]);
	if (a->joint >= 0)
		heap_push(e, key_of(a, (size_t)left));
}

/* A merge removes one key and adds two, so the heap never exceeds two keys a symbol. */
static bool fill_heap(struct encoder* e) {
	struct symbol* const s = e->symbol;
	const size_t n = e->n_symbols;
	if (!grow_to(&e->heap, &e->heap_capacity, 2 * n + CHILDREN, sizeof *e->heap)) {
		e->failed = true;
		return false;
	}
	e->n_heap = 0;
	for (size_t i = 0; i < n; i++) {
		s[i].previous = (int32_t)i - 1;
		s[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
		if (s[i].joint >= 0)
			e->heap[e->n_heap++] = key_of(&s[i], i);
	}
	for (size_t i = e->n_heap; i < 2 * n + CHILDREN; i++)
		e->heap[i] = no_key;
	for (size_t i = e->n_heap / CHILDREN + 1; i-- > 0 && e->n_heap > 0;)
		sink_pair(e->heap, e->n_heap, i, e->heap[i]);
	return true;
}

static void merge_many(struct encoder* e, const char* word) {
	struct symbol* const s = e->symbol;
	for (size_t i = 0; i < e->n_symbols; i++)
		look_ahead(e, word, &s[i], i + 1 < e->n_symbols ? &s[i + 1] : NULL);
	while (merge_round(e, word) * FREQUENT > e->n_symbols)
		;
	if (!fill_heap(e))
		return;
	while (e->n_heap > 0) {
		const uint64_t key = heap_pop(e);
		const int32_t left = (int32_t)(uint32_t)key;
		struct symbol* const a = &s[left];
		if (a->size == 0 || key_of(a, (size_t)left) != key)
			continue; /* the pair is no more */
		struct symbol* const b = &s[a->next];
		a->size += b->size;
		a->id = a->joint;
		a->next = b->next;
		b->size = 0;
		if (a->next >= 0)
			s[a->next].previous = left;
		consider_pair(e, word, a->previous);
		consider_pair(e, word, left);
	}
	size_t n = 0;
	for (int32_t i = 0; i >= 0; i = s[i].next)
		s[n++] = s[i];
	e->n_symbols = n;
}

/* Whether a span of that size has the symbols' text, with the rest of a character that begins in it. */
static bool span_repeats(const struct encoder* e, const char* word, size_t size, size_t from, size_t to) {
	if (e->word != word || e->span != to - from || e->n_symbols == 0)
		return false;
	const struct symbol *first = e->symbol, *last = first + e->n_symbols - 1;
	const size_t n = last->start + last->size - first->start, end = from + n;
	return end <= size && memcmp(word + first->start, word + from, n) == 0 &&
	       (end == size || ((uint8_t)word[end] & 0xC0) != 0x80);
}

/* The tokens of the characters that begin in word[from, to), as symbols. A run repeats itself: its tokens are
 * those of the span before. */
static bool merge_span(struct encoder* e, const char* word, size_t size, size_t from, size_t to) {
	if (span_repeats(e, word, size, from, to)) {
		const uint32_t shift = (uint32_t)(from - e->symbol[0].start);
		for (size_t i = 0; i < e->n_symbols; i++)
			e->symbol[i].start += shift;
		return true;
	}
	e->span = to - from;
	e->word = word;
	if (!split_characters(e, word, size, from, to))
		return false;
	if (e->n_symbols <= FEW)
		merge_few(e, word);
	else
		merge_many(e, word);
	return !e->failed;
}

/* ---- words ------------------------------------------------------------------------------------ */

static void emit_symbols(struct encoder* e, const char* word, const struct symbol* s, size_t n,
                         bool* after_unknown) {
	for (size_t i = 0; i < n && !encoder_done(e); i++) {
		if (s[i].id >= 0)
			encoder_emit(e, s[i].id);
		*after_unknown = s[i].id < 0 && encoder_emit_unknown(e, word + s[i].start, s[i].size, *after_unknown);
	}
}

/* The first token that both spans have; false: none. */
static bool meet_pair(const struct symbol* a, size_t n_a, size_t* i, const struct symbol* b, size_t n_b,
                      size_t* j) {
	for (*i = *j = 0; *i < n_a && *j < n_b;) {
		if (a[*i].start == b[*j].start && a[*i].size == b[*j].size)
			return true;
		if (a[*i].start < b[*j].start)
			++*i;
		else
			++*j;
	}
	return false;
}

/* Moves tokens from `first` on, which are not emitted yet, to the tail. */
static bool keep_word(struct encoder* e, size_t first) {
	e->n_tail = e->n_symbols - first;
	if (!grow_to(&e->tail, &e->tail_capacity, e->n_tail, sizeof *e->tail)) {
		e->failed = true;
		return false;
	}
	memcpy(e->tail, e->symbol + first, e->n_tail * sizeof *e->tail);
	return true;
}

static size_t end_of(size_t start, size_t span, size_t size) {
	return size - start < span ? size : start + span;
}

/* The next span begins with the token in which the overlap begins. False: the two spans share no token. */
static bool merge_next(struct encoder* e, const char* word, size_t size, size_t span, size_t* end,
                       size_t* met, size_t* first) {
	size_t last = e->n_tail;
	while (last > 0 && e->tail[--last].start > *end - span / OVERLAPS)
		;
	const size_t start = e->tail[last].start, next = end_of(start, span, size);
	if (next <= *end || !merge_span(e, word, size, start, next) ||
	    !meet_pair(e->tail + last, e->n_tail - last, met, e->symbol, e->n_symbols, first))
		return false;
	*met += last;
	*end = next;
	return true;
}

/* Encodes a longer span from the tail's first token on. False: this token changed. */
static bool merge_longer(struct encoder* e, const char* word, size_t size, size_t span, size_t* end) {
	const struct symbol was = e->tail[0];
	*end = end_of(was.start, span, size);
	return merge_span(e, word, size, was.start, *end) && e->symbol[0].size == was.size;
}

/* False, with some ids emitted, when the word needs longer spans from its beginning on, or when memory runs
 * out. */
static bool encode_spans(struct encoder* e, const char* word, size_t size, size_t span, bool* after_unknown) {
	size_t end = end_of(0, span, size), first = 0, met;
	e->word = NULL;
	if (!merge_span(e, word, size, 0, end))
		return false;
	for (size_t length = span; end < size && !encoder_done(e);) {
		if (!keep_word(e, first))
			return false;
		if (merge_next(e, word, size, length, &end, &met, &first)) {
			emit_symbols(e, word, e->tail, met, after_unknown);
			length = span;
			continue;
		}
		first = 0;
		length *= GROWTH;
		if (e->failed || !merge_longer(e, word, size, length, &end))
			return false;
	}
	emit_symbols(e, word, e->symbol + first, e->n_symbols - first, after_unknown);
	return true;
}

static bool has_bytes(const struct tokenizer* t, const char* text, size_t size) {
	for (size_t i = 0; i < size; i++)
		if (t->vocabulary.byte[(uint8_t)text[i]] < 0)
			return false;
	return t->byte_fallback;
}

/* The word without the characters that have no piece, if it has any: then those around them may merge. */
static const char* without_unknown(struct encoder* e, const char* word, size_t* size) {
	const struct tokenizer* const t = e->tokenizer;
	struct buffer* const kept = &e->kept;
	bool all = true;
	kept->size = 0;
	for (size_t at = 0, length; at < *size; at += length) {
		uint32_t code;
		length = read_character(word + at, *size - at, &code);
		const bool known = piece_of(t, word + at, length, code) >= 0 || has_bytes(t, word + at, length);
		if (!known && all)
			buffer_add(kept, word, at);
		all &= known;
		if (known && !all)
			buffer_add(kept, word + at, length);
	}
	e->failed |= kept->failed;
	*size = all ? *size : kept->size;
	return all ? word : kept->data;
}

void bpe_encode(struct encoder* e, const char* word, size_t size) {
	const struct tokenizer* t = e->tokenizer;
	uint32_t code;
	if (t->skips_unknown)
		word = without_unknown(e, word, &size);
	if (size == 0 || e->failed)
		return;
	if (read_character(word, size, &code) == size) {
		const int32_t id = piece_of(t, word, size, code);
		if (id >= 0)
			encoder_emit(e, id);
		else
			encoder_emit_unknown(e, word, size, false);
		return;
	}
	const int32_t whole = t->ignore_merges ? vocabulary_find_plain(&t->vocabulary, word, size) : -1;
	bool after_unknown = false;
	if (whole >= 0) {
		encoder_emit(e, whole);
		return;
	}
	if (size > INT32_MAX / 2) {
		e->failed = true;
		return;
	}
	for (size_t at = 0, end; at < size && !encoder_done(e); at = end) {
		const int before = e->out->n;
		const bool was_unknown = after_unknown;
		end = next_cut(t, word, size, at);
		for (size_t span = SPAN; !encode_spans(e, word + at, end - at, span, &after_unknown) && !e->failed;
		     span *= GROWTH) {
			e->out->n = before;
			after_unknown = was_unknown;
		}
	}
}
