/* The layer-set optimizer behind a session: a search that learns from the session's passes.
 *
 * It is the session's learner (core/decode/learner.h). Influence comes from the first decoded rows, scores
 * from passes of its own over text that was just generated (score.c), and acceptance from drafting itself. */
#pragma once

#include "core/decode/session.h"
#include "optimizer/search.h"

/* Makes an optimizer the session's learner if there is something to search for. It searches levels if drafts
 * read weights by input channel, and otherwise sets of layers. It searches nothing beside other quantized
 * draft weights, with which skipping never pays (docs/lessons.md), unless a ratio asks for it. False with the
 * error set; the session closes it in any case. */
bool optimizer_open(struct session*, struct error*);
/* The session's search; NULL if its mask is fixed. */
struct search* session_search(struct session*);
/* A search with this session's options, for another workload cluster; NULL on no memory. */
struct search* session_new_search(struct session*);
/* Continues with another search, which the session then owns, and whose best mask drafts. The caller gets the
 * present one. If the session has no search (NULL), `other` stays the caller's. */
struct search* session_swap_search(struct session*, struct search* other);
/* Drops what was learned of texts before another tenant's come: probabilities and the search. The caller gets
 * the present search; NULL if the session has none, or if there is no memory for another. */
struct search* session_forget(struct session*);
/* Scores a mask on the generated text of the last request, window by window: matches of rows. Call before a
 * search has seen that text. False with the error set. */
bool session_judge(struct session*, const struct mask*, int* matches, int* rows, struct error*);
