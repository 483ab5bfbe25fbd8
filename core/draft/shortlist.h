/* The tokens that drafts choose among: those of the text so far, those that were likely in its last rows, and
 * the first ones of the vocabulary.
 *
 * A draft step reads the output head, which is a third or more of its bytes with a large vocabulary.
 * Tokenizers number tokens in the order of merging, the most frequent first. A rarer token that comes was
 * often among the likeliest ones of an earlier row. So a sixteenth to a half of the vocabulary together with
 * those tokens contain nearly all that comes. The size is chosen by what it saves, and by how many of the
 * last tokens it would have missed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	SHORTLIST_SIZES = 5, /* a sixteenth, an eighth, a fourth, a half, all */
	SHORTLIST_ROWS = 64, /* rows whose likely tokens are listed */
	SHORTLIST_LIKELY = 8 /* of a row */
};

struct shortlist {
	int vocab, words;
	uint64_t *text, *bits; /* (words) the text's tokens; and those that drafts choose among */
	/* The last rows' likely tokens, the oldest at `row`; -1: none. The last `fresh` rows came after the draft
	 * of the tokens that follow them. */
	int32_t likely[SHORTLIST_ROWS][SHORTLIST_LIKELY];
	int row, fresh;
	/* The last tokens that were new to the text, by the smallest size that contains them; and all of the last
	 * tokens. */
	double new_in[SHORTLIST_SIZES], seen;
};

/* False on no memory. Close in any case. */
bool shortlist_open(struct shortlist*, int vocab);
void shortlist_close(struct shortlist*);
/* Another text begins. */
void shortlist_begin(struct shortlist*);
/* Adds the n likeliest tokens of a verified row, best first. */
void shortlist_see(struct shortlist*, const int32_t* token, int n);
/* Adds tokens of the text, without those beyond the vocabulary; counted: they were generated. */
void shortlist_take(struct shortlist*, const int32_t* token, int n, bool counted);
/* Bits (vocab, in whole words) of the tokens to choose among, for a head with this share of a draft step's
 * cost; valid until the next call of any of these. NULL: all tokens. */
const uint64_t* shortlist_bits(struct shortlist*, double head_share);
