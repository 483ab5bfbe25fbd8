/* The tokens that a draft's rows choose among: those of the text so far, and the first ones of the
 * vocabulary.
 *
 * A draft step reads the output head, a third or more of its bytes where the vocabulary is large. Tokenizers
 * number their tokens in the order in which merging made them, the commonest first, so that an eighth to a
 * half of the vocabulary and the text's own tokens hold nearly all that comes. How much is left out is chosen
 * by what it saves and by how many of the last tokens it would have missed. */
#ifndef SWIFTLET_CORE_DRAFT_SHORTLIST_H
#define SWIFTLET_CORE_DRAFT_SHORTLIST_H

#include <stdbool.h>
#include <stdint.h>

enum { SHORTLIST_SIZES = 4 }; /* an eighth, a fourth, a half, all */

struct shortlist {
	int vocab, words;
	uint64_t *text, *bits; /* (words) tokens of the text; and what drafts choose among */
	/* Of the last tokens, those that the text had not before, by the smallest size that holds them; and all.
	 */
	double new_in[SHORTLIST_SIZES], seen;
};

/* False on no memory. Close in any case. */
bool shortlist_open(struct shortlist*, int vocab);
void shortlist_close(struct shortlist*);
/* Another text begins. */
void shortlist_begin(struct shortlist*);
/* Tokens of the text, others than the vocabulary's left out; counted: they were generated. */
void shortlist_take(struct shortlist*, const int32_t* token, int n, bool counted);
/* Bits (vocab, in whole words) to choose among, good until the next call of any of these, where the head is
 * such a share of a draft step's cost; NULL: all. */
const uint64_t* shortlist_bits(struct shortlist*, double head_share);

#endif
