/* Cutting a normalized text into words, within which alone pieces are merged.
 *
 * A pre-tokenizer is a list of steps, each of which cuts the words of the one before. */
#ifndef SWIFTLET_CORE_TEXT_PRETOKENIZE_H
#define SWIFTLET_CORE_TEXT_PRETOKENIZE_H

#include "core/text/expression.h"
#include "core/text/vocabulary.h"

enum pretokenize_kind {
	PRETOKENIZE_SPLIT,       /* at the matches of an expression */
	PRETOKENIZE_BYTE_LEVEL,  /* words are rewritten in GPT-2's alphabet */
	PRETOKENIZE_SPACE_FIRST, /* a word that does not begin with a space gets one */
	PRETOKENIZE_METASPACE    /* spaces become `replacement`, which may also go before a word */
};

enum split_behavior {                 /* what becomes of a match */
	                  SPLIT_ISOLATED, /* a word of its own */
	                  SPLIT_REMOVED,
	                  SPLIT_WITH_PREVIOUS, /* joins the text before it */
	                  SPLIT_WITH_NEXT,
	                  SPLIT_CONTIGUOUS /* matches that touch are one word */
};

enum metaspace_prefix { METASPACE_NEVER, METASPACE_FIRST, METASPACE_ALWAYS };

struct pretokenize_step {
	enum pretokenize_kind kind;
	struct expression* expression; /* SPLIT */
	enum split_behavior behavior;
	bool invert;                  /* SPLIT: what does not match is the match */
	char replacement[8];          /* METASPACE */
	enum metaspace_prefix prefix; /* METASPACE */
};

enum { MAX_PRETOKENIZE_STEPS = 16 };

struct pretokenizer {
	struct pretokenize_step step[MAX_PRETOKENIZE_STEPS];
	int n;
};

struct span {
	size_t start, size;
	bool broken; /* bytes that are not UTF-8: cut no further */
};

struct words {
	struct buffer text;
	struct span* span;
	size_t n, capacity;
	bool failed; /* memory ran out */
};

void pretokenizer_free(struct pretokenizer*);
/* A step at the end; NULL with the error set when there are too many. */
struct pretokenize_step* pretokenizer_add(struct pretokenizer*, enum pretokenize_kind, struct error*);
/* A SPLIT with a compiled pattern. */
bool pretokenizer_add_split(struct pretokenizer*, const char* pattern, size_t size, enum split_behavior,
                            bool invert, struct error*);
/* Cuts words->text (first: where the whole text begins) into words->span, with *work as space; the two
 * may change places. False: no memory. */
bool pretokenizer_run(const struct pretokenizer*, struct matcher*, bool first, struct words* words,
                      struct words* work);
void words_free(struct words*);

#endif
