/* The costs of a session's rows and drafts, and the gain of a chain of drafts over its cost. */
#ifndef SWIFTLET_CORE_DECODE_SESSION_COST_H
#define SWIFTLET_CORE_DECODE_SESSION_COST_H

#include "core/decode/cost.h"
#include "kernels/backend.h"

struct session;

/* Bytes of keys and values that a row reads after the cache's committed tokens, if attention without a window
 * reads `read` of them. */
double session_cache_bytes(const struct cache*, int read);
/* Costs are from now on those after this session's text. In a batch they are those after the mean text, which
 * its owner sets. */
void session_set_length(const struct session*);
/* Draft tokens that may still be of use, at most `most`: a draft never goes beyond what may be emitted. */
int session_useful_depth(const struct session*, int most);
/* The cost of a plain step of the batch for each of its sequences, in plain steps of one sequence. It is the
 * unit of costs and accounts, and 1 for a sequence alone. */
double session_cost_unit(const struct session*);
/* Seconds in units; `unknown` if no plain step was measured. */
double session_cost_of(const struct session*, double seconds, double unknown);
/* The cost of n rows of this sequence beside `beside` rows of others, in units. */
double session_rows_cost(const struct session*, double beside, int n);

/* Tokens over cost of the best chain of d = 1 … most steps, each accepted after the last with probability a:
 * M / (d·c + v(d + 1)), M = 1 + a + … + a^d tokens, with c the cost of a step and verify[n] = v(n) in plain
 * steps. Under 1 if no chain pays. It is SWIFT's Eq. 6 with the cost of verification in it. */
double chain_rate(const double* verify, int most, double a, double c);
/* The same under a cost model. */
double chain_rate_now(const struct cost_model*, int most, double a, double c);
/* The policy's min_reach at this rate of tokens in the time of a plain step: the rate times the least cost
 * per token of going on from d steps at cost c, if all d are accepted and the share `next` of further ones is
 * right. e more steps bring next + next² + … + next^e tokens. It looks more than one step ahead, because v(n)
 * may rise in steps. */
void set_min_reach(const struct cost_model*, double rate, double c, double next, struct draft_policy*);

#endif
