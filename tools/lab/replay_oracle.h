/* The best policy with the same tables, known afterwards; `bench replay --oracle` compares the planner with
 * it.
 *
 * At each token of a recorded answer it follows the chain of retrieval's first candidates: how many of its
 * tokens are right, and by how long a suffix of the text the first one was found. From these it computes two
 * policies exactly: the one that always drafts as far as it is right and pays, and the best of the rules "so
 * many tokens if the match is at least so long, otherwise none". */
#ifndef SWIFTLET_TOOLS_LAB_REPLAY_ORACLE_H
#define SWIFTLET_TOOLS_LAB_REPLAY_ORACLE_H

#include "core/draft/drafter.h"
#include "core/draft/retrieval.h"

struct replay_oracle;

/* A policy's tokens over its cost by the cost table. */
struct oracle_figures {
	double hindsight; /* of any depth at any token */
	double rule;      /* of the best rule by length of match */
	int rule_match, rule_depth;
};

struct replay_oracle* oracle_open(const struct drafter_setup*, const struct retrieval_pool*);
void oracle_close(struct replay_oracle*);
/* A text of n tokens, of which the last n - n_prompt are the answer. False on no memory. */
bool oracle_add(struct replay_oracle*, const int32_t* text, int n_prompt, int n);
/* verify (SLICE_ROWS + 1): v(n). */
struct oracle_figures oracle_find(const struct replay_oracle*, const float* verify);

#endif
