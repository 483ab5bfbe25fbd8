/* The parts of a tokenizer, shared by the readers that build it and the stages that run it.
 *
 * Encoding: split at added tokens -> normalize -> split at added tokens that are matched after normalizing ->
 * pre-tokenize into words -> merge each word into pieces. */
#pragma once

#include "core/text/added_tokens.h"
#include "core/text/steps.h"
#include "core/text/tokenizer.h"
#include "core/text/vocabulary.h"

enum tokenizer_kind {
	TOKENIZER_SCORED, /* BPE: the pair whose joint piece scores highest merges first */
	TOKENIZER_RANKED, /* BPE by a list of merges */
	TOKENIZER_UNIGRAM /* the segmentation with the highest sum of scores */
};

/* The list of merges: pairs of ids to their joint piece, open-addressed. */
struct merge {
	int32_t left, right; /* left -1: an empty slot */
	int32_t id;
	uint32_t rank; /* the lowest merges first */
};
struct merges {
	struct merge* slot; /* (n_slots, a power of two) */
	uint64_t*
	    seen; /* (n_slots / 16) a Bloom bit by a pair's hash, which rejects most pairs that do not merge */
	size_t n_slots;
	size_t n;
};

struct id_list { /* what is put before or after a text */
	int32_t id[8];
	int n;
};

struct tokenizer {
	enum tokenizer_kind kind;
	struct vocabulary vocabulary;
	int32_t bos, eos, unknown;
	struct id_list before, after;

	struct added_tokens raw;        /* met in the text as it comes */
	struct added_tokens normalized; /* met after normalizing */

	bool lists_added; /* the file lists its added tokens; piece types add none */
	struct steps normalizer, pretokenizer;
	bool drops_first_space; /* encoding prepends a space, which decoding removes */
	bool byte_fallback;     /* characters without a piece become byte pieces */
	bool drops_unknown;     /* unknown characters have no piece: a text cannot make a special token */
	bool skips_unknown;   /* BPE without an unknown piece: unknown characters are as if they were not there */
	bool fuse_unknown;    /* several unknown characters in a row are one unknown piece */
	bool ignore_merges;   /* a word that is a piece is taken whole */
	bool merges_pieces;   /* SCORED: only pieces merge; else characters without a piece do, too */
	int32_t* character;   /* BPE: (DIRECT_CHARACTERS) ids of the first characters' pieces, -1: none */
	uint64_t* touching;   /* BPE: a bit for each two characters that touch in some piece */
	struct merges merges; /* RANKED */
	bool single_precision;    /* UNIGRAM: sums are rounded as sentencepiece rounds them */
	double unknown_score;     /* UNIGRAM: score of a character without a piece */
	struct added_tokens trie; /* UNIGRAM: the pieces */
};

/* Work space of one call of tokenizer_encode. */
struct symbol {
	uint32_t start, size; /* of the word; size 0: merged away */
	int32_t id;           /* -1: no piece */
	int32_t previous, next;
	int32_t joint;  /* the piece that it and the next symbol merge into, -1: none */
	uint32_t order; /* of that merge, the lowest is first */
};
struct joint { /* what two pieces merge into */
	int32_t left, right, id;
	uint32_t order;
};
struct encoder {
	const struct tokenizer* tokenizer;
	struct token_list* out;
	struct plain_ranges plain; /* ranges of the text in which special tokens are plain text */
	bool failed;               /* no memory */
	struct buffer kept;        /* the characters of a word that have pieces */
	struct matcher matcher;
	struct walk normalizer, pretokenizer;
	struct symbol* symbol;
	const char* word; /* of the symbols; NULL: of none */
	size_t span;      /* bytes in which their characters begin */
	size_t n_symbols, symbol_capacity;
	struct symbol* tail; /* tokens of a span that the next span has to confirm */
	size_t n_tail, tail_capacity;
	uint64_t* heap; /* order and place of the pairs that may merge */
	size_t n_heap, heap_capacity;
	struct joint* joint; /* (n_joints, a power of two) BPE: a cache of pairs by hash; left -1: empty */
	size_t n_joints;
	struct lattice_node* lattice; /* UNIGRAM */
	size_t lattice_capacity;
};

/* Text that tokenizer_piece writes, borrowed. */
const char* tokenizer_printed(const struct tokenizer*, int32_t id, bool special, size_t* size);

/* Appends the ids of a prompt. Special tokens are recognized unless they touch the plain ranges. Without
 * special tokens in the ranges, the ids are tokenizer_encode's. False: no memory. */
bool tokenizer_encode_prompt(const struct tokenizer*, const char* text, size_t size,
                             const struct plain_ranges*, struct token_list* out);

/* The models. Each is prepared once the vocabulary is sealed. They append the ids of one word (size > 0). */
bool bpe_prepare(struct tokenizer*, struct error*);
bool bpe_start(struct encoder*, size_t size); /* of the whole text; false: no memory */
void bpe_encode(struct encoder*, const char* word, size_t size);
bool unigram_prepare(struct tokenizer*, struct error*);
void unigram_encode(struct encoder*, const char* word, size_t size);
void encoder_emit(struct encoder*, int32_t id);
/* Encoding stops: the list is full, or memory ran out. */
static inline bool encoder_done(const struct encoder* e) {
	return e->failed || (e->out->limit > 0 && e->out->n >= e->out->limit);
}
/* Appends a character without a piece: its bytes, or the unknown piece, unless it follows one and they fuse.
 * Returns whether it was unknown. */
bool encoder_emit_unknown(struct encoder*, const char* bytes, size_t size, bool after_unknown);

/* For the readers. ---------------------------------------------------------------------------- */
struct cJSON;

/* Fills in a tokenizer, its kind included, from its source. config: tokenizer_config.json's text, or NULL. */
typedef bool tokenizer_reader(struct tokenizer*, const struct cJSON* config, const void* source, size_t size,
                              struct error*);
/* Completes a tokenizer: registers control, unknown and user-defined pieces as added tokens unless the source
 * listed them, and applies the config. NULL with the error set. */
struct tokenizer* tokenizer_make(const char* config, tokenizer_reader*, const void* source, size_t size,
                                 struct error*);
/* Sets the id, if it is not set, to the piece of the first name, else of the second. Sealed vocabulary
 * only. */
void tokenizer_default_end(const struct tokenizer*, int32_t* end, const char* name, const char* other);
/* Prefixes the error's sentence with the place. Returns false. */
bool tokenizer_fail_in(const char* where, struct error*);
/* The printed bytes of sentencepiece-like pieces: U+2581 as a space, <0x0A> as its byte. */
bool tokenizer_print_sentencepiece(struct tokenizer*, struct error*);
/* Decodes pieces in GPT-2's alphabet. Others print as they are. */
bool tokenizer_print_byte_level(struct tokenizer*, struct error*);
/* Allocates n merges, and adds them by ascending rank. The first of equal pairs stays. A merge that would
 * make a special token is left out. Error: a part or the result is no piece. Sealed vocabulary only. */
bool tokenizer_start_merges(struct tokenizer*, size_t n, struct error*);
bool tokenizer_add_merge(struct tokenizer*, const char* left, size_t left_size, const char* right,
                         size_t right_size, struct error*);
/* "left right", as tokenizer.json and GGUF write it. */
bool tokenizer_add_merge_line(struct tokenizer*, const char* line, size_t size, struct error*);
const struct merge* merges_find(const struct merges*, int32_t left, int32_t right);
/* Sentencepiece's treatment of spaces: squeeze, a prefix space, U+2581 for spaces. */
bool tokenizer_space_as_block(struct tokenizer*, enum prefix_scheme, bool squeeze, struct error*);
/* Adds an added token, matched in the raw or the normalized text. */
bool tokenizer_add_token(struct tokenizer*, const char* content, size_t size, struct added_token,
                         bool on_normalized, struct error*);
