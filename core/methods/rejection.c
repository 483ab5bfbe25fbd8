/* Walking down the tree, a draw a child. */
#include "core/methods/rejection.h"

#include "kernels/noise.h"
#include "kernels/sample.h"

/* These keys differ from those of the sampler's own noise. */
static const uint64_t other_key = 0x5eed0fd1ce5c0de5u;

/* Uniform in [0, 1), 53 bits. */
static double draw_token(const struct sampler* s, uint64_t position, uint32_t index) {
	const struct noise_words w = noise_philox(s->seed ^ other_key, s->sequence, (uint32_t)position, index);
	return (double)(((uint64_t)w.word[0] << 32 | w.word[1]) >> 11) * 0x1p-53;
}

static double sum_of(const float* x, int n) {
	double sum = 0;
	for (int v = 0; v < n; v++)
		sum += (double)x[v];
	return sum;
}

static void divide_all(float* x, int n, double by) {
	for (int v = 0; v < n; v++)
		x[v] = (float)((double)x[v] / by);
}

/* p = normalised max(p - q, 0). If nothing is left, p and q were equal up to rounding, and p stays. */
static void subtract_draft(float* p, const float* q, int vocab) {
	double left = 0;
	for (int v = 0; v < vocab; v++)
		left += p[v] > q[v] ? (double)(p[v] - q[v]) : 0;
	if (left <= 0)
		return;
	for (int v = 0; v < vocab; v++)
		p[v] = p[v] > q[v] ? (float)((double)(p[v] - q[v]) / left) : 0;
}

/* Removes the token from a distribution; false when it held all the probability. */
static bool take_out(float* x, int vocab, int32_t token) {
	x[token] = 0;
	const double left = sum_of(x, vocab);
	if (left > 0)
		divide_all(x, vocab, left);
	return left > 0;
}

static int32_t token_from(const float* p, int vocab, double u) {
	int32_t last = 0;
	double below = 0;
	u *= sum_of(p, vocab);
	for (int32_t v = 0; v < vocab; v++) {
		if (p[v] <= 0)
			continue;
		last = v;
		below += (double)p[v];
		if (u < below)
			break;
	}
	return last;
}

/* The accepted child, or -1; p is then the distribution that the token comes from. */
static int try_children(const struct tree* tree, int row, bool drawn, uint64_t position,
                        const struct rejection* r) {
	uint32_t index = 0;
	for (int i = row + 1; i < tree->n; i++) {
		if (tree->parent[i] != row)
			continue;
		const int32_t x = tree->token[i];
		const double p = (double)r->p[x], q = drawn ? (double)r->q[x] : 1;
		if (draw_token(r->sampler, position, index++) * q < p)
			return i;
		if (!drawn) {
			take_out(r->p, r->vocab, x);
			continue;
		}
		subtract_draft(r->p, r->q, r->vocab);
		if (!take_out(r->q, r->vocab, x))
			break;
	}
	return -1;
}

void tree_reject(const struct tree* tree, const struct result* out, const float* const* q, uint64_t position,
                 const struct rejection* r, struct verdict* verdict) {
	enum { BONUS = 1 << 20 }; /* beyond any child's number */
	int row = 0;
	verdict->accepted = 0;
	verdict->path[0] = 0;
	for (;; position++) {
		sample_distribution(out[row].logits, r->vocab, r->sampler, r->p, r->scratch);
		if (q[row])
			sample_distribution(q[row], r->vocab, r->sampler, r->q, r->scratch);
		const int child = try_children(tree, row, q[row] != NULL, position, r);
		if (child < 0)
			break;
		row = child;
		verdict->path[++verdict->accepted] = row;
	}
	verdict->bonus = token_from(r->p, r->vocab, draw_token(r->sampler, position, BONUS));
}
