/* Match rates by exit, and the best of the prices. */
#include "core/decode/exit_choice.h"

#include "core/decode/price.h"

#include <math.h>
#include <string.h>

void exit_choice_open(struct exit_choice* c, int blocks, int given) {
	*c = (struct exit_choice){.exit_block = given > 0    ? given
	                                        : blocks > 3 ? (int)lround(0.3 * blocks)
	                                                     : 1,
	                          .steps = 4,
	                          .children = 3};
	if (given > 0)
		c->block[c->exits++] = given;
	for (int i = 1; given == 0 && i <= EXITS; i++) {
		const int block = (int)lround((double)i * blocks / (EXITS + 1));
		if (block >= 1 && block < blocks && (c->exits == 0 || c->block[c->exits - 1] < block))
			c->block[c->exits++] = block;
	}
}

void exit_choice_keep(struct exit_choice* c, const struct heads* heads) {
	int n = 0;
	for (int block = 1; block < heads->shape->n_blocks; block++)
		n += heads->weight[block] != NULL;
	/* evenly, where there are more */
	c->exits = 0;
	for (int block = 1, i = 0; block < heads->shape->n_blocks; block++) {
		if (!heads->weight[block])
			continue;
		if (n <= EXITS || i * EXITS / n >= c->exits)
			if (c->exits < EXITS)
				c->block[c->exits++] = block;
		i++;
	}
	if (c->exits > 0)
		c->exit_block = c->block[c->exits / 3];
}

static const double fades = 0.5; /* a measurement, with the next */

static void count(struct exit_choice* c, int exit, const struct result* out, const int32_t* token, int n) {
	for (int i = 0; i < n; i++)
		for (int k = 0; k < out[i].top; k++)
			if (out[i].top_token[k] == token[i + 1]) {
				for (int more = k; more < TREE_RANKS; more++)
					c->hits[exit][more]++;
				break;
			}
}

bool exit_choice_measure(struct exit_choice* c, struct backend* backend, struct cache* cache,
                         const int32_t* token, int base, int n, const struct sampler* sampler,
                         const struct exit_heads* heads, float* state, struct error* error) {
	struct result out[EXIT_ROWS];
	uint8_t want[EXIT_ROWS];
	int32_t row[EXIT_ROWS];
	const struct segment segment = {.cache = cache, .base = base, .n = n - 1, .sampler = sampler};
	c->seen *= fades;
	for (int e = 0; e < c->exits; e++)
		for (int k = 0; k < TREE_RANKS; k++)
			c->hits[e][k] *= fades;
	for (int i = 0; i < n - 1; i++) {
		want[i] = WANT_TOKEN | WANT_TOP;
		row[i] = i;
	}
	for (int e = 0, from = 0; e < c->exits; from = 2 * c->block[e++]) {
		const int block = c->block[e];
		const bool trained = heads && heads->heads->weight[block];
		for (int i = 0; i < n - 1; i++)
			out[i].top = TREE_RANKS;
		struct pass pass = pass_over(&segment, token, NULL, 2 * block, want, out);
		pass.row = row;
		pass.first = from;
		pass.head = !trained;
		pass.tap = trained ? 2 * block - 1 : -1;
		pass.tap_out = state;
		if (!backend->run(backend, &pass, error) ||
		    (trained && !exit_heads_run(heads, backend, block, state, n - 1, want, out, error)))
			return false;
		count(c, e, out, token, n - 1);
	}
	backend->discard(cache);
	c->seen += n - 1;
	return true;
}

static void offer(struct exit_choice* c, double rate, int block, int steps, int children) {
	if (rate <= c->rate)
		return;
	c->rate = rate;
	c->exit_block = block;
	c->steps = steps;
	c->children = children;
}

void exit_choice_make(struct exit_choice* c, const struct cost_model* cost, bool reuse, int steps,
                      int children, int most) {
	double attention, mlp, fixed;
	cost_sub_layers(cost, false, &attention, &mlp, &fixed);
	if (c->seen <= 0)
		return;
	c->rate = 0;
	for (int e = 0; e < c->exits; e++) {
		const struct exit_price price = {cost, c->block[e] * (attention + mlp), fixed, reuse};
		for (int d = 1; children < 0 && d <= most; d++)
			if (steps == 0 || d == steps)
				offer(c, price_exit_chain(&price, c->hits[e][0] / c->seen, d), c->block[e], d, 1);
		for (int k = 1; children >= 0 && k <= TREE_RANKS; k++)
			if (children == 0 || k == children)
				offer(c, price_exit_children(&price, c->hits[e][k - 1] / c->seen, k), c->block[e], 1, k);
	}
}
