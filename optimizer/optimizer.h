/* The layer-set optimizer behind a session: a search that learns from the session's passes.
 *
 * It is the session's learner (core/decode/learner.h). Influence comes from the prompt's rows and the first
 * decoded ones, scores from passes of its own over text that was just generated (score.c), and acceptance
 * from drafting itself. */
#ifndef SWIFTLET_OPTIMIZER_OPTIMIZER_H
#define SWIFTLET_OPTIMIZER_OPTIMIZER_H

#include "core/decode/session.h"
#include "optimizer/influence.h"
#include "optimizer/search.h"

/* Makes an optimizer the session's learner if the model has blocks that may be skipped. False with the error
 * set; the session closes it in any case. */
bool optimizer_open(struct session*, struct error*);
/* The session's search; NULL if its mask is fixed. */
struct search* session_search(struct session*);
/* A search with this session's options, for another workload cluster; NULL with the error set. */
struct search* session_new_search(struct session*, struct error*);
/* Continues with another search, which the session then owns, and with its workload's influence. The caller
 * gets the present ones. The new search's best mask drafts. If the session has no search (NULL), `other`
 * stays the caller's. */
struct search* session_swap_search(struct session*, struct search* other, struct influence*);
/* Drops what was learned of texts before another tenant's come: probabilities, influence, the search. The
 * caller gets the present search and influence; NULL if the session has none, or if there is no memory for
 * another. */
struct search* session_forget(struct session*, struct influence* known);
/* The influence measured on the present or last text. */
const struct influence* session_text_influence(const struct session*);
/* Influence that earlier runs measured on this workload. */
void session_add_influence(struct session*, const struct influence*);
/* Scores a mask on the generated text of the last request, window by window: matches of rows. Call before a
 * search has seen that text. False with the error set. */
bool session_judge(struct session*, const struct mask*, int* matches, int* rows, struct error*);

#endif
