/* The pieces of a tokenizer: from id to text, from text to id, and the bytes that each prints.
 *
 * A piece has its text as the file writes it ("▁the", "Ġthe", "<0x0A>"), and the bytes that it stands for in
 * a decoded text (" the", " the", "
 * "). A reader fills the vocabulary and seals it; from then on it is only read. */
#pragma once

#include "kernels/backend.h"

/* Sentencepiece's and GGUF's numbers. */
enum piece_type {
	PIECE_ABSENT = 0, /* an id that the file leaves out */
	PIECE_NORMAL = 1,
	PIECE_UNKNOWN = 2,
	PIECE_CONTROL = 3,
	PIECE_USER_DEFINED = 4,
	PIECE_UNUSED = 5,
	PIECE_BYTE = 6
};

struct buffer { /* growing bytes; failed: memory ran out, and later bytes are dropped */
	char* data;
	size_t size, capacity;
	bool failed;
};
void buffer_add(struct buffer*, const void* bytes, size_t size);
void buffer_free(struct buffer*);

struct piece {
	size_t text, text_size;    /* in vocabulary.store, as the file writes it */
	size_t printed, n_printed; /* in vocabulary.store, the bytes it stands for */
	double score;              /* the order of merging, or a log probability */
	uint8_t type;              /* enum piece_type */
	bool added;                /* matched only as a whole in a text, never made by merging */
};

static inline bool piece_is_special(const struct piece* p) {
	return p->type == PIECE_CONTROL || p->type == PIECE_UNKNOWN;
}
/* Pieces that merging may make. */
static inline bool piece_is_plain(const struct piece* p) {
	return !p->added && (p->type == PIECE_NORMAL || p->type == PIECE_USER_DEFINED);
}

struct piece_slot {
	uint64_t hash; /* texts of one size under 8 bytes have different hashes, so theirs are not compared */
	int32_t id;    /* -1: empty */
	uint32_t size;
};

struct vocabulary {
	struct piece* piece; /* (n) by id */
	int n;
	size_t capacity;
	struct buffer store;
	struct piece_slot* slot; /* (n_slots, a power of two) open-addressed by text */
	size_t n_slots;
	uint64_t*
	    seen; /* (n_slots / 16) a Bloom bit by a text's hash, which rejects most texts that are no piece */
	size_t longest;    /* bytes of the longest text that merging may make */
	int32_t byte[256]; /* ids of byte pieces, -1 where there is none */
	int64_t expected;  /* pieces announced by vocabulary_expect */
};

enum {
	MAX_VOCABULARY = 1 << 24, /* ids are dense; more is a broken file */
	MAX_GAPS = 1 << 16,       /* ids that a file may leave out */
	MAX_PIECE = 1 << 14       /* bytes; published pieces have fewer than a thousand */
};

/* The byte that a text such as "<0x0A>" names, or -1. */
int piece_byte(const char* text, size_t size);

void vocabulary_start(struct vocabulary*);
void vocabulary_free(struct vocabulary*);
/* Announces n more pieces whose ids the file chooses. An id far above the number of pieces is then an error,
 * so that a small file cannot make us allocate a huge table. */
void vocabulary_expect(struct vocabulary*, int n);
/* Sets piece `id`, which must be empty; printed = text until the reader changes it. Ids that were skipped
 * become absent. Errors: id out of range or taken, text too long, no memory. */
bool vocabulary_set(struct vocabulary*, int64_t id, const char* text, size_t size, enum piece_type type,
                    double score, struct error*);
/* Builds the lookup of texts and bytes. A duplicate or empty text is an error for pieces that can occur in
 * text. Unused and absent ids may share texts. */
bool vocabulary_seal(struct vocabulary*, struct error*);
/* Id of an exact text, or -1. Sealed only. */
int32_t vocabulary_find(const struct vocabulary*, const char* text, size_t size);
/* The same, but only among plain pieces: not control, unknown, unused, byte or added ones. */
int32_t vocabulary_find_plain(const struct vocabulary*, const char* text, size_t size);
static inline const char* vocabulary_text(const struct vocabulary* v, int32_t id) {
	return v->store.data + v->piece[id].text;
}
