/* Which tokens have followed the longest suffix of a text that occurred before: an index of texts, exact for
 * any length of suffix, in amortised constant time a token and memory fixed when it is opened.
 *
 * A suffix automaton (Blumer et al. 1985; of several texts as in Mohri et al. 2009): each state stands for
 * the substrings that end at the same places, its link for their longest suffix that ends at more. An edge by
 * a token counts how often that token followed the state's substrings, and edges lie in the order in which
 * they were taken last, so that looking at the first few is enough. */
#ifndef SWIFTLET_CORE_DRAFT_SUFFIX_H
#define SWIFTLET_CORE_DRAFT_SUFFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SUFFIX_COUNTED = 32, /* suffixes of a text whose counts one token changes: what bounds the work a token */
	SUFFIX_LOOKED_AT = 32 /* followers of a state that are looked at, the most recent ones */
};

struct suffix_index;

/* A substring of the indexed texts: the longest suffix found of some other text. */
struct suffix_place {
	int32_t state;  /* 0: the empty one */
	int32_t length; /* tokens */
};

struct suffix_follower {
	int32_t token;
	int32_t count; /* times that it followed; a lower bound beyond SUFFIX_COUNTED nested suffixes */
	int32_t last;  /* tokens that the index held when it did so last */
};

/* Room for `capacity` tokens in all. NULL on no memory. */
struct suffix_index* suffix_open(int capacity);
void suffix_close(struct suffix_index*);
/* Forgets all texts. */
void suffix_clear(struct suffix_index*);
int suffix_size(const struct suffix_index*); /* tokens held */
/* Appends a token to the text at hand. False, and nothing is done, when the index is full. */
bool suffix_append(struct suffix_index*, int32_t token);
/* The text at hand is over; what is appended next begins another. */
void suffix_break(struct suffix_index*);

/* The longest suffix of the text at hand that occurs elsewhere in the index. */
struct suffix_place suffix_repeated(const struct suffix_index*);
/* The longest suffix of (place's substring + token) that occurs. Places hold until the next token is
 * appended. */
struct suffix_place suffix_step(const struct suffix_index*, struct suffix_place, int32_t token);
/* The next shorter suffix that ends at more places. */
struct suffix_place suffix_shorter(const struct suffix_index*, struct suffix_place);
/* What followed the place's substring: the `most` most frequent of those looked at, most frequent first, of
 * equals the more recent. Returns how many; *total is how often anything followed. */
int suffix_followers(const struct suffix_index*, struct suffix_place, struct suffix_follower* out, int most,
                     int32_t* total);

#endif
