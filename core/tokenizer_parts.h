/* What a tokenizer is made of; for the readers that build one and the stages that run it.
 *
 * Encoding goes: split at added tokens -> normalize -> split at added tokens met after normalizing ->
 * pre-tokenize into words -> merge each word into pieces. */
#ifndef SWIFTLET_CORE_TOKENIZER_PARTS_H
#define SWIFTLET_CORE_TOKENIZER_PARTS_H

#include "core/added_tokens.h"
#include "core/tokenizer.h"
#include "core/vocabulary.h"

enum tokenizer_kind {
	TOKENIZER_BYTES,  /* ids are bytes */
	TOKENIZER_SCORED, /* sentencepiece BPE: the pair whose joint piece scores highest merges first */
	TOKENIZER_RANKED, /* BPE by a list of merges */
	TOKENIZER_UNIGRAM /* the segmentation with the highest sum of scores */
};

/* When the space that sentencepiece puts before a text is added. */
enum prefix_scheme { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS };

struct id_list { /* what is put before or after a text */
	int32_t id[8];
	int n;
};

struct tokenizer {
	enum tokenizer_kind kind;
	struct vocabulary vocabulary;
	int size; /* ids; may be more than the vocabulary's for bytes */
	int32_t bos, eos, unknown;
	struct id_list before, after;

	struct added_tokens raw;        /* met in the text as it comes */
	struct added_tokens normalized; /* met after normalizing */

	bool escape_space; /* ' ' becomes U+2581 */
	enum prefix_scheme prefix;
	bool squeeze_space; /* runs of spaces become one, outer ones go */
	bool byte_fallback; /* characters without a piece become byte pieces */
	bool fuse_unknown;  /* several unknown characters in a row are one unknown piece */
	uint32_t* order;    /* (vocabulary.n) TOKENIZER_SCORED: merging order of each piece, lower first */
};

/* Work space of one call of tokenizer_encode. */
struct symbol {
	uint32_t start, size; /* of the word; size 0: merged away */
	int32_t id;           /* -1: no piece */
	int32_t previous, next;
};
struct candidate {
	uint32_t order, left, size; /* merged size: tells whether it still stands */
	int32_t id;
};
struct encoder {
	const struct tokenizer* tokenizer;
	struct token_list* out;
	bool plain; /* TOKENIZE_NO_SPECIAL */
	bool failed;
	struct buffer text; /* normalized */
	struct symbol* symbol;
	size_t n_symbols, symbol_capacity;
	struct candidate* heap;
	size_t n_heap, heap_capacity;
};

/* The models: append the ids of one word (size > 0). False: no memory. */
bool bpe_encode(struct encoder*, const char* word, size_t size);
void encoder_emit(struct encoder*, int32_t id);

/* For the readers. ---------------------------------------------------------------------------- */
struct tokenizer* tokenizer_new(enum tokenizer_kind, struct error*);
/* The printed bytes of sentencepiece-like pieces: U+2581 as a space, <0x0A> as its byte. */
bool tokenizer_print_sentencepiece(struct tokenizer*, struct error*);
/* Fills vocabulary.byte from pieces <0x00>… of type PIECE_BYTE. */
void tokenizer_find_bytes(struct tokenizer*);
/* Seals the vocabulary, orders scored pieces, registers control, unknown and user-defined pieces as
 * added tokens; frees the tokenizer and returns NULL on an error. */
struct tokenizer* tokenizer_finish(struct tokenizer*, struct error*);

#endif
