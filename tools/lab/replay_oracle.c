/* Chains of first candidates, and two policies over them. */
#include "tools/lab/replay_oracle.h"

#include <math.h>
#include <stdlib.h>

#include "core/files/grow.h"

enum { DEEPEST = 16, LONGEST = 12 };

struct replay_place {
	uint8_t match;        /* tokens of the text's suffix that occur elsewhere */
	uint8_t chain, right; /* candidates in a row; of these right */
	uint8_t left;         /* draft tokens that the answer has room for; 0: its last token is next */
	bool last;            /* the answer ends here, and nothing is decoded */
};

struct replay_oracle {
	void* drafter;
	struct replay_place* place; /* (n) of all answers, in order */
	int n;
	size_t capacity;
};

struct replay_oracle* oracle_open(const struct drafter_setup* setup, const struct retrieval_pool* pool) {
	struct replay_oracle* o = calloc(1, sizeof *o);
	if (!o || !(o->drafter = drafters[SOURCE_retrieval]->open(setup))) {
		free(o);
		return NULL;
	}
	retrieval_use_pool(o->drafter, pool);
	return o;
}

void oracle_close(struct replay_oracle* o) {
	if (!o)
		return;
	drafters[SOURCE_retrieval]->close(o->drafter);
	free(o->place);
	free(o);
}

/* rest (n_rest): what follows the text. */
static struct replay_place follow_policy(struct replay_oracle* o, int32_t root, const int32_t* rest,
                                         int n_rest) {
	struct replay_place p = {.left = (uint8_t)(n_rest - 1 < DEEPEST ? n_rest - 1 : DEEPEST)};
	struct candidate first;
	struct tree tree;
	bool right = true;
	tree_start(&tree, root);
	while (p.chain < p.left &&
	       drafters[SOURCE_retrieval]->extend(o->drafter, &tree, tree.n - 1, &first, 1) > 0) {
		if (p.chain == 0)
			p.match = (uint8_t)fmin(255, retrieval_match(o->drafter));
		right = right && first.token == rest[p.chain];
		p.right = (uint8_t)(p.right + right);
		p.chain++;
		tree_add(&tree, tree.n - 1, first.token, SOURCE_retrieval, 0, 1);
	}
	return p;
}

bool oracle_add(struct replay_oracle* o, const int32_t* text, int n_prompt, int n) {
	if (!grow_to(&o->place, &o->capacity, (size_t)(o->n + n - n_prompt), sizeof *o->place))
		return false;
	drafters[SOURCE_retrieval]->begin(o->drafter,
	                                  &(struct drafter_text){.prompt = text, .n_prompt = n_prompt});
	for (int i = n_prompt; i < n; i++) { /* the first token comes with the prompt */
		drafters[SOURCE_retrieval]->append(o->drafter, text + i, 1);
		if (i + 1 < n)
			o->place[o->n++] = follow_policy(o, text[i], text + i + 1, n - i - 1);
		else
			o->place[o->n++] = (struct replay_place){.last = true};
	}
	return true;
}

static double best_at_all(const struct replay_oracle* o, const float* verify) {
	double cost[DEEPEST + 2] = {0}, tokens = 0; /* of the rest of the answer, from the i-th place on */
	for (int i = o->n - 1; i >= 0; i--) {
		const struct replay_place* p = &o->place[i];
		double best = INFINITY;
		for (int d = 0; !p->last && d <= p->right; d++)
			best = fmin(best, (double)verify[1 + d] + cost[d]);
		for (int d = DEEPEST; d > 0; d--)
			cost[d] = cost[d - 1];
		cost[0] = p->last ? cost[0] : best;
		tokens += !p->last;
	}
	return tokens / cost[0];
}

static double by_rule(const struct replay_oracle* o, const float* verify, int match, int depth) {
	double cost = 0, tokens = 0;
	for (int i = 0; i < o->n;) {
		const struct replay_place* p = &o->place[i];
		int brought = 1;
		if (!p->last) {
			const int rows = p->match < match ? 0 : p->chain < depth ? p->chain : depth;
			brought += p->right < rows ? p->right : rows;
			cost += (double)verify[1 + rows];
			tokens += brought;
		}
		i += brought;
	}
	return tokens / cost;
}

struct oracle_figures oracle_find(const struct replay_oracle* o, const float* verify) {
	struct oracle_figures f = {.hindsight = best_at_all(o, verify), .rule = 1};
	for (int match = 1; match <= LONGEST; match++)
		for (int depth = 1; depth <= DEEPEST; depth++) {
			const double value = by_rule(o, verify, match, depth);
			if (value > f.rule)
				f = (struct oracle_figures){f.hindsight, value, match, depth};
		}
	return f;
}
