/* Match rates by exit, and the exit that pays best. */
#include "core/methods/exit_choice.h"

#include <math.h>

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
	/* evenly, where there are more than EXITS */
	c->exits = 0;
	for (int block = 1, i = 0; block < heads->shape->n_blocks; block++)
		if (heads->weight[block] && i++ * EXITS / n >= c->exits)
			c->block[c->exits++] = block;
	if (c->exits > 0)
		c->exit_block = c->block[c->exits / 3];
}

static const double fades = 0.5; /* a measurement, with the next */

void exit_choice_begin(struct exit_choice* c, struct cache* cache, const int32_t* token, int base, int n,
                       const struct sampler* sampler, struct exit_heads* heads, float* state) {
	c->exit = 0;
	c->tapped = false;
	c->n = n - 1;
	c->token = token;
	c->segment = (struct segment){.cache = cache, .base = base, .n = n - 1, .sampler = sampler};
	c->heads = heads;
	c->state = state;
	c->seen *= fades;
	for (int e = 0; e < c->exits; e++)
		for (int k = 0; k < TREE_RANKS; k++)
			c->hits[e][k] *= fades;
	for (int i = 0; i < c->n; i++) {
		c->want[i] = WANT_TOKEN | WANT_TOP;
		c->row[i] = i;
	}
}

static void count_matches(struct exit_choice* c) {
	for (int i = 0; i < c->n; i++)
		for (int k = 0; k < c->out[i].top; k++)
			if (c->out[i].top_token[k] == c->token[i + 1]) {
				for (int more = k; more < TREE_RANKS; more++)
					c->hits[c->exit][more]++;
				break;
			}
	c->exit++;
	c->tapped = false;
}

static bool is_trained(const struct exit_choice* c) {
	return c->heads && c->heads->heads->weight[c->block[c->exit]];
}

/* The rows go on from the exit before. */
static void rows_pass(struct exit_choice* c, struct pass* pass) {
	const int span = 2 * c->block[c->exit];
	*pass = pass_over(&c->segment, c->token, NULL, span, c->want, c->out);
	pass->row = c->row;
	pass->first = c->exit > 0 ? 2 * c->block[c->exit - 1] : 0;
	pass->head = !is_trained(c);
	pass->tap = is_trained(c) ? span - 1 : -1;
	pass->tap_out = c->state;
}

void exit_choice_fill(struct exit_choice* c, struct pass* pass) {
	for (int i = 0; i < c->n; i++)
		c->out[i].top = TREE_RANKS;
	if (c->tapped)
		exit_heads_fill(c->heads, c->block[c->exit], c->state, c->n, c->want, c->out, pass);
	else
		rows_pass(c, pass);
}

bool exit_choice_take(struct exit_choice* c) {
	if (is_trained(c) && !c->tapped) {
		c->tapped = true;
		return false;
	}
	if (c->tapped)
		c->heads->scratch->backend->discard(c->heads->scratch);
	count_matches(c);
	if (c->exit < c->exits)
		return false;
	c->segment.cache->backend->discard(c->segment.cache);
	c->seen += c->n;
	return true;
}

static void offer_exit(struct exit_choice* c, double rate, int block, int steps, int children) {
	if (rate <= c->rate)
		return;
	c->rate = rate;
	c->exit_block = block;
	c->steps = steps;
	c->children = children;
}

/* The cost of n + 1 rows if `run` of them ran up to the exit before, which is the share e of a step. */
static double verify_cost(const struct cost_model* cost, bool reuse, double e, double run, int n) {
	const double whole = cost_verify(cost, n + 1);
	return reuse ? run * e + whole * (1 - e) : whole;
}

void exit_choice_make(struct exit_choice* c, const struct cost_model* cost, bool reuse, int steps,
                      int children, int most) {
	double attention, mlp, head;
	cost_sub_layers(cost, false, NULL, &attention, &mlp, &head);
	if (c->seen <= 0)
		return;
	c->rate = 0;
	for (int i = 0; i < c->exits; i++) {
		const double e = c->block[i] * (attention + mlp), step = e + head, a = c->hits[i][0] / c->seen;
		double tokens = 1, reach = 1;
		for (int d = 1; children < 0 && d <= most; d++) {
			tokens += reach *= a;
			if (steps == 0 || d == steps)
				offer_exit(c, tokens / (d * step + verify_cost(cost, reuse, e, 1, d)), c->block[i], d, 1);
		}
		for (int k = 1; children >= 0 && k <= TREE_RANKS; k++)
			if (children == 0 || k == children)
				offer_exit(c,
				           (1 + c->hits[i][k - 1] / c->seen) /
				               (step + verify_cost(cost, reuse, e, cost_verify(cost, k), k)),
				           c->block[i], 1, k);
	}
}
