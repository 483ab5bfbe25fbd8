#include "core/text/vocabulary.h"

#include "core/files/grow.h"
#include "core/files/utf8.h"

#include <stdlib.h>
#include <string.h>

void buffer_add(struct buffer* b, const void* bytes, size_t size) {
	if (b->failed || size == 0)
		return;
	if (size > SIZE_MAX / 4 - b->size || !grow_to(&b->data, &b->capacity, b->size + size, 1)) {
		b->failed = true;
		return;
	}
	memcpy(b->data + b->size, bytes, size);
	b->size += size;
}

void buffer_free(struct buffer* b) {
	free(b->data);
	*b = (struct buffer){0};
}

int piece_byte(const char* text, size_t size) {
	if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
		return -1;
	const int high = hexadecimal_digit(text[3]), low = hexadecimal_digit(text[4]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static int shown_size(size_t size) { return (int)(size < 40 ? size : 40); }

void vocabulary_start(struct vocabulary* v) {
	memset(v, 0, sizeof *v);
	for (int i = 0; i < 256; i++)
		v->byte[i] = -1;
}

void vocabulary_free(struct vocabulary* v) {
	free(v->piece);
	free(v->slot);
	free(v->seen);
	buffer_free(&v->store);
	memset(v, 0, sizeof *v);
}

void vocabulary_expect(struct vocabulary* v, int n) { v->expected += n; }

bool vocabulary_set(struct vocabulary* v, int64_t id, const char* text, size_t size, enum piece_type type,
                    double score, struct error* error) {
	int64_t limit =
	    v->expected > 0 && v->expected < MAX_VOCABULARY - MAX_GAPS ? v->expected + MAX_GAPS : MAX_VOCABULARY;
	if (id < 0 || id >= limit)
		return error_set(error, "piece \"%.*s\" has id %lld, expected 0 to %lld", shown_size(size), text,
		                 (long long)id, (long long)limit - 1);
	if (size > MAX_PIECE)
		return error_set(error, "piece %lld is %zu bytes long, expected at most %d", (long long)id, size,
		                 MAX_PIECE);
	int place = (int)id;
	if (place < v->n && v->piece[place].type != PIECE_ABSENT)
		return error_set(error, "id %d is given to two pieces, \"%.*s\" and \"%.*s\"", place,
		                 shown_size(v->piece[place].text_size), vocabulary_text(v, place), shown_size(size),
		                 text);
	if (!grow_to(&v->piece, &v->capacity, (size_t)place + 1, sizeof *v->piece))
		return error_set(error, "out of memory for a vocabulary of %d pieces", place + 1);
	while (v->n <= place)
		v->piece[v->n++] = (struct piece){.type = PIECE_ABSENT};
	struct piece* p = &v->piece[place];
	if (v->store.size == 0)
		buffer_add(&v->store, "", 1); /* so that even empty texts have a place */
	p->text = p->printed = v->store.size;
	p->text_size = p->n_printed = size;
	p->score = score;
	p->type = (uint8_t)type;
	p->added = false;
	buffer_add(&v->store, text, size);
	return v->store.failed ? error_set(error, "out of memory for the vocabulary") : true;
}

enum { SLOTS_A_WORD = 16 }; /* so four bits of `seen` a slot */

static uint64_t mix_hash(uint64_t h, uint64_t bits) {
	h = (h ^ bits) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 32;
}

/* Each step can be undone, so two texts of one size under 8 bytes have different hashes. */
static uint64_t hash_bytes(const char* text, size_t size) {
	uint64_t h = 0xcbf29ce484222325u ^ size, bits;
	for (; size >= sizeof bits; text += sizeof bits, size -= sizeof bits) {
		memcpy(&bits, text, sizeof bits);
		h = mix_hash(h, bits);
	}
	bits = 0;
	for (size_t i = 0; i < size; i++)
		bits = bits << 8 | (uint8_t)text[i];
	return mix_hash(mix_hash(h, bits), 0);
}

static uint64_t* seen_word(const struct vocabulary* v, uint64_t hash) {
	return &v->seen[(size_t)(hash >> 24) & (v->n_slots / SLOTS_A_WORD - 1)];
}
static uint64_t seen_bit(uint64_t hash) { return UINT64_C(1) << (hash >> 58); }

/* The slot that holds the text, or an empty one for it. */
static struct piece_slot* place_of(const struct vocabulary* v, const char* text, size_t size, uint64_t hash) {
	for (size_t at = (size_t)hash & (v->n_slots - 1);; at = (at + 1) & (v->n_slots - 1)) {
		struct piece_slot* const slot = &v->slot[at];
		if (slot->id < 0)
			return slot;
		if (slot->hash == hash && slot->size == size &&
		    (size < sizeof hash || memcmp(vocabulary_text(v, slot->id), text, size) == 0))
			return slot;
	}
}

static bool can_be_met(const struct piece* p) { return p->type != PIECE_ABSENT && p->type != PIECE_UNUSED; }

static bool add_to_lookup(struct vocabulary* v, int32_t id, struct error* error) {
	const struct piece* p = &v->piece[id];
	if (p->text_size == 0)
		return can_be_met(p) ? error_set(error, "piece %d of the vocabulary is empty", id) : true;
	const uint64_t hash = hash_bytes(vocabulary_text(v, id), p->text_size);
	struct piece_slot* const slot = place_of(v, vocabulary_text(v, id), p->text_size, hash);
	const int32_t other = slot->id;
	if (other >= 0 && can_be_met(p) && can_be_met(&v->piece[other]))
		return error_set(error, "pieces %d and %d of the vocabulary are the same, \"%.*s\"", other, id,
		                 shown_size(p->text_size), vocabulary_text(v, id));
	if (other < 0 || can_be_met(p))
		*slot = (struct piece_slot){.hash = hash, .id = id, .size = (uint32_t)p->text_size};
	*seen_word(v, hash) |= seen_bit(hash);
	return true;
}

bool vocabulary_seal(struct vocabulary* v, struct error* error) {
	if (v->n == 0)
		return error_set(error, "the vocabulary holds no pieces");
	v->n_slots = 16;
	while (v->n_slots < (size_t)v->n * 2)
		v->n_slots *= 2;
	free(v->slot);
	free(v->seen);
	v->slot = malloc(v->n_slots * sizeof *v->slot);
	v->seen = calloc(v->n_slots / SLOTS_A_WORD, sizeof *v->seen);
	if (!v->slot || !v->seen)
		return error_set(error, "out of memory for the vocabulary");
	for (size_t i = 0; i < v->n_slots; i++)
		v->slot[i].id = -1;
	v->longest = 0;
	for (int32_t id = 0; id < v->n; id++) {
		const struct piece* p = &v->piece[id];
		if (p->type == PIECE_ABSENT)
			continue;
		if (!add_to_lookup(v, id, error))
			return false;
		if (piece_is_plain(p) && p->text_size > v->longest)
			v->longest = p->text_size;
		const int byte = p->type == PIECE_BYTE ? piece_byte(vocabulary_text(v, id), p->text_size) : -1;
		if (byte >= 0)
			v->byte[byte] = id;
	}
	return true;
}

int32_t vocabulary_find(const struct vocabulary* v, const char* text, size_t size) {
	if (size == 0 || v->n_slots == 0)
		return -1;
	const uint64_t hash = hash_bytes(text, size);
	return *seen_word(v, hash) & seen_bit(hash) ? place_of(v, text, size, hash)->id : -1;
}

int32_t vocabulary_find_plain(const struct vocabulary* v, const char* text, size_t size) {
	if (size > v->longest)
		return -1;
	int32_t id = vocabulary_find(v, text, size);
	return id >= 0 && piece_is_plain(&v->piece[id]) ? id : -1;
}
