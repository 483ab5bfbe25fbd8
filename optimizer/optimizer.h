/* The layer-set optimizer behind a session: a search fed by what the session's passes tell.
 *
 * It is the session's learner (core/decode/learner.h). Influence comes from the prompt's rows and the first
 * ones that are decoded, scores from passes of its own over text that was just generated (score.c),
 * acceptance from drafting itself. */
#ifndef SWIFTLET_OPTIMIZER_OPTIMIZER_H
#define SWIFTLET_OPTIMIZER_OPTIMIZER_H

#include "core/decode/session.h"
#include "optimizer/influence.h"
#include "optimizer/search.h"

/* Makes an optimizer the session's learner, where the model has blocks that may be skipped. False with the
 * error set; the session closes it in any case. */
bool optimizer_open(struct session*, struct error*);
/* The search behind the session; NULL where its masks are given. */
struct search* session_search(struct session*);
/* A search with this session's options, for another workload cluster; NULL with the error set. */
struct search* session_new_search(struct session*, struct error*);
/* Goes on with another search (owned by the session from now on), and with the influence of its workload;
 * those until now are the caller's. Its best mask drafts. NULL where the session has no search: `other` stays
 * the caller's. */
struct search* session_swap_search(struct session*, struct search* other, struct influence*);
/* What was learned of texts goes, before another tenant's come: probabilities, influence, the search. The
 * search and its influence until now are the caller's; NULL where the session has none, or no memory for
 * another. */
struct search* session_forget(struct session*, struct influence* known);
/* What the text at hand, or the last one, has told of influence. */
const struct influence* session_text_influence(const struct session*);
/* Influence that earlier runs measured on this workload. */
void session_add_influence(struct session*, const struct influence*);
/* A mask's matchness on the generated text of the last request, window by window: matches of rows. To be
 * asked before a search has seen that text. False with the error set. */
bool session_judge(struct session*, const struct mask*, int* matches, int* rows, struct error*);

#endif
