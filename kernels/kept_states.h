/* The states of recurrent blocks that a backend keeps behind named pages (pages.h), so that a later text that
 * begins with the same pages goes on from there.
 *
 * A sequence's own state exists behind its last token alone. Copies of it are kept where a prompt is likely
 * to part from another: kept_states_stop says where. Each copy belongs to a named page, so its name says
 * which tokens it is behind, and whose. There are as many as caches are open, and KEPT_BESIDE more; the copy
 * that was used the longest ago makes room for a new one, and one whose page is forgotten is free. Memory is
 * taken when caches are opened, so the decode path allocates nothing. One thread at a time uses them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/pages.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	KEPT_BESIDE = 8,
	KEPT_FROM = 64,   /* tokens: fewer are computed again in a pass or two */
	KEPT_CHUNK = 256, /* tokens: the first of the doubling places */
};

struct kept_state {
	struct page* page; /* behind whose last token; NULL: free */
	int64_t used;      /* the pool's count of uses when it was used last */
	int found;         /* texts that have gone on from it */
	float content[];   /* (the pool's floats) */
};

struct kept_states {
	size_t floats; /* of a state; set by the backend before anything else */
	int made, wanted;
	int64_t uses;
	struct kept_state** state; /* (made) */
};

/* Another cache opens, or closes. False if there is no memory for its copy. */
bool kept_states_want(struct kept_states*);
void kept_states_want_no_more(struct kept_states*);
void kept_states_close(struct kept_states*);

/* Where to write the state behind a page (its copy, if it has one); the page has it from now on. */
float* kept_states_put(struct kept_states*, struct page*);
/* The page has one. */
const float* kept_states_get(struct kept_states*, struct page*);

/* The first position after `from` behind which the state of a prompt of n tokens is kept; INT32_MAX: none.
 * These are: the last whole page before the prompt's last token, which has to be computed in any case, so
 * that the next turn of a conversation finds it; 256 tokens and their doublings, so that any text that begins
 * alike finds more than half of what it shares; and `branch`, where another text is known to go on otherwise
 * (0: nowhere). All are ends of pages, and at least KEPT_FROM. */
int kept_states_stop(int from, int n, int branch);

#ifdef __cplusplus
}
#endif
