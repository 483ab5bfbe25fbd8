/* The screened head: the rows of the output head that cannot have the largest logit are not computed.
 *
 * An exact screened head. Every row has a coarse score, from a copy of the head in four bits, and a bound on
 * how far its logit, as the exact kernel gives it, can lie from that score. The row with the best coarse
 * score is computed exactly; rows that cannot reach its logit keep their coarse score, all others are
 * computed by the same kernel from the stored weights. So the largest logit, its row and all rows that share
 * it are those of the full head, to the bit. The other logits are approximate.
 *
 * The bound. The exact kernel multiplies a stored row w with xe, the activations as prepared for its type,
 * the coarse one v (four bits) with xc. By Cauchy and Schwarz
 *     |w·xe - v·xc| = |(w - v)·xc + w·(xe - xc)| <= |w - v| |xc| + |w| |xe - xc|.
 * Both kernels add `cols` products in floats, no product going through more than cols + 64 roundings of half
 * a unit u = 2^-24 (integers are exact before they are scaled, in the types below): what they give differs
 * from the real products by at most e (|w| |xe| + |v| |xc|) with e = 1.01 (cols + 64) u. |xe| <= |xc| +
 * |xe - xc|, and |v| <= |w| + |w - v|. So with a row's slack = (1 + e) |w - v| + 2 e |w|, rounded up, the
 * difference is at most
 *     slack (|xc| + |xe - xc|) + |w| |xe - xc|,
 * plus what underflow takes, which is far under `least_slack`. Norms are summed in doubles, or in floats with
 * their own rounding added.
 *
 * A sampled token is the largest too, of scores with known noise: rows that cannot reach the winner's are not
 * computed either, unless filters ask for everybody's probability. */
#pragma once

#include "kernels/backend.h"

struct cpu_backend;

struct screened_head {
	struct tensor coarse; /* (vocab up to whole groups of INTERLEAVED_ROWS, dim) q4_0, interleaved */
	float* slack;         /* (coarse.rows) */
	float* norm;          /* (coarse.rows) |w| */
	float largest;        /* of the norms */
	float* most_slack;    /* (blocks of neighbouring rows) the largest slack of each block */
	float* most_norm;     /* (blocks) */
	unsigned char* input; /* (head_rows) rows prepared for the stored type */
	int32_t* survivor;    /* (head_rows, most_survivors) ids that may have the largest logit */
	int most_survivors;   /* with more survivors the whole row is computed */
	void* memory;         /* owns the arrays above; NULL: there is none */
	size_t bytes;
	/* Its recent cost as a share of the full head's bytes, and rows that avoid it because of that. */
	double cost;
	int resting;
	unsigned refused; /* passes that had too many rows for it */
};

/* Makes it on the backend's threads, whose workspace is open. Makes nothing when there is no kernel, type or
 * memory for it, or when weights are not finite. */
void screened_open(struct cpu_backend*);
void screened_close(struct screened_head*);

/* True when row `row` of the slice may use it by its `want`: only the largest logit is needed, and the order
 * of the others at most as a guess. */
bool screened_serves(struct cpu_backend*, int row, uint8_t want);

/* And whether n such rows had better take it, by what it cost of late: each has survivors of its own, while
 * the full head is read once for all of them. Now and then what is refused is tried all the same.
 */
bool screened_pays(struct cpu_backend*, int n);

/* b->logits (n, vocab) of b->normed (n, dim), the slice's rows `row` (n): exact where a logit is, or may be,
 * the largest of its row, or that of a sampled token, else coarse. */
void screened_logits(struct cpu_backend*, const int* row, int n);
/* The same of drafts, the slice's rows `row` (n): where many may be the largest, the best coarse one alone is
 * exact; and where all rows are bounded, what none of them is allowed has next to no chance, unread, but for
 * neighbours of what is. */
void guessed_logits(struct cpu_backend*, const int* row, int n);
