/* What a session's rows and drafts cost it, and what a chain of drafts brings for its cost. */
#ifndef SWIFTLET_CORE_DECODE_SESSION_COST_H
#define SWIFTLET_CORE_DECODE_SESSION_COST_H

#include "core/decode/cost.h"
#include "kernels/backend.h"

struct session;

/* Draft tokens that may still be of use, at most `most`: a draft never goes beyond what may be emitted. */
int session_useful_depth(const struct session*, int most);
/* What a plain step of the batch costs for each of its sequences, in plain steps alone: the unit of costs
 * and accounts, 1 for one that is alone. */
double session_cost_unit(const struct session*);
/* So many seconds in units; before a plain step was measured, what is given for that. */
double session_cost_of(const struct session*, double seconds, double unknown);
/* What n rows of this sequence cost beside `beside` rows of others, in units. */
double session_rows_cost(const struct session*, double beside, int n);

/* Tokens over cost of a chain of d steps, each accepted after the last with the chance a, the best of
 * d = 1 … most: M / (d·c + v(d + 1)), M = 1 + a + … + a^d tokens, a step at cost c and verify[n] = v(n) in
 * plain steps. Under 1 where no chain pays. It is SWIFT's Eq. 6 with the cost of
 * verification in it. */
double chain_rate(const double* verify, int most, double a, double c);
/* The same under a cost model. */
double chain_rate_now(const struct cost_model*, int most, double a, double c);
/* The policy's min_reach where tokens come at this rate in the time of a plain step: times the least cost per
 * token that going on from d steps at cost c can have, if all d are accepted and the share `next` of further
 * ones is right: e steps more bring next + next² + … + next^e tokens. More than one ahead, since v(n) may
 * rise in steps. */
void set_min_reach(const struct cost_model*, double rate, double c, double next, struct draft_policy*);

#endif
