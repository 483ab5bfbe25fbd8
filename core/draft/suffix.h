/* An index of texts: which tokens followed the longest suffix of a text that occurred before. It is exact for
 * suffixes of any length, takes amortised constant time a token, and memory fixed when it is opened.
 *
 * It is a suffix automaton (Blumer et al. 1985; for several texts as in Mohri et al. 2009). Each state stands
 * for the substrings that end at the same places. Its link leads to their longest suffix that ends at more
 * places. An edge by a token counts how often that token followed the state's substrings. Edges lie in the
 * order in which they were last taken, so it is enough to look at the first few. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SUFFIX_COUNTED = 32,  /* one token changes the counts of at most so many suffixes */
	SUFFIX_LOOKED_AT = 32 /* followers of a state that are looked at, the most recent ones */
};

struct suffix_index;

/* A substring of the indexed texts: the longest known suffix of another text. */
struct suffix_place {
	int32_t state;  /* 0: the empty one */
	int32_t length; /* tokens */
};

struct suffix_follower {
	int32_t token;
	int32_t count; /* how often it followed; a lower bound beyond SUFFIX_COUNTED nested suffixes */
	int32_t last;  /* the index's tokens when it last followed */
};

/* Memory for `capacity` tokens in all. NULL on no memory. */
struct suffix_index* suffix_open(int capacity);
void suffix_close(struct suffix_index*);
/* Forgets all texts. */
void suffix_clear(struct suffix_index*);
int suffix_size(const struct suffix_index*); /* tokens held */
/* Appends a token to the present text. False, with nothing changed, when the index is full. */
bool suffix_append(struct suffix_index*, int32_t token);
/* Ends the present text. The next appended token begins another. */
void suffix_break(struct suffix_index*);

/* The longest suffix of the present text that also occurs elsewhere in the index. */
struct suffix_place suffix_repeated(const struct suffix_index*);
/* The longest suffix of (place's substring + token) that occurs. Places are valid until the next token is
 * appended. */
struct suffix_place suffix_step(const struct suffix_index*, struct suffix_place, int32_t token);
/* The next shorter suffix that ends at more places. */
struct suffix_place suffix_shorter(const struct suffix_index*, struct suffix_place);
/* The followers of the place's substring: the `most` most frequent of those looked at, most frequent first,
 * and of equal ones the more recent first. Returns how many; *total counts how often anything followed. */
int suffix_followers(const struct suffix_index*, struct suffix_place, struct suffix_follower* out, int most,
                     int32_t* total);
