/* What a search is told: its options, and what passes cost. Its parts read them; none knows the search. */
#ifndef SWIFTLET_OPTIMIZER_SEARCH_OPTIONS_H
#define SWIFTLET_OPTIMIZER_SEARCH_OPTIONS_H

#include "kernels/backend.h"

enum search_objective { OBJECTIVE_MATCHNESS, OBJECTIVE_SPEEDUP };
enum search_acquisition { SEARCH_UCB, SEARCH_EI };
enum search_kernel { SEARCH_MATERN52, SEARCH_HAMMING };

struct search_options {
	int blocks; /* L; sub-layers of the first and last block are never skipped */
	/* r: exactly floor(r·2(L-2)) sub-layers are skipped. 0, with OBJECTIVE_SPEEDUP only: as many as pay at
	 * measured costs, the start (before costs are known) at r = 0.45. */
	double skip_ratio;
	/* Share of a plain step's cost that a mask saves at least, where costs are known; 0: by ratio or price.
	 */
	double skip_cost;
	/* beta: as published step o is Bayesian when o % beta == 0. 0: uniformly random proposals only, where no
	 * spans are known. */
	int bayes_interval;
	int max_steps;        /* S */
	int patience;         /* steps without improvement */
	double max_matchness; /* stop above it ... */
	int confirm;          /* ... on confirm + 1 disjoint windows */
	enum search_objective objective;
	enum search_acquisition acquisition;
	enum search_kernel kernel;
	double kappa;
	uint64_t seed;
	/* Seconds, for what the search itself takes; NULL: the monotonic clock. */
	double (*clock)(void* user);
	void* clock_user;
	/* A low-bit copy of the weights that drafts may run with once search_take_copy says so: its bits (0:
	 * there never is one), the sub-layers that it has, and whether it has the head. With OBJECTIVE_SPEEDUP
	 * only: a mask then says of each sub-layer whether it is skipped, low, or as stored. */
	int copy_bits;
	struct mask copied;
	bool head_copied;
	/* SWIFT as published, in everything that changes a mask: uniformly random proposals, a plain Gaussian
	 * process each bayes_interval-th, the first mask scored replaces the start mask, the best raw score ever
	 * drafts, nothing is scored twice. Influence, distances, costs and `confirm` are ignored. */
	bool published;
};

/* Costs for OBJECTIVE_SPEEDUP, in one-row full passes. */
struct search_costs {
	double attention, mlp;                    /* one sub-layer of each kind, as stored */
	double fixed;                             /* what no mask saves: embedding, head, overhead */
	double low_attention, low_mlp, low_fixed; /* the same with the low-bit copy, where there is one */
	double verify[SLICE_ROWS + 1];            /* v(n) of n rows; v[1] = 1 */
	int max_draft;
};

#endif
