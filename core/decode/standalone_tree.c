/* Builds the tree from a standalone drafter's steps, and learns from its verification. */
#include "core/decode/session_state.h"

/* ---- steps -------------------------------------------------------------------------------- */

static int width_of(const struct session* s, const struct result* step) {
	const struct standalone* m = s->standalone;
	int width = 1;
	if (m->method->tree == TREE_CHILDREN)
		width = s->options.children > 0 ? s->options.children : m->choice.children;
	else if (m->method->tree == TREE_WIDE)
		width = tree_width(method_top_k(&s->options, s->sampled), step->max_probability);
	return least(width, step->top);
}

void standalone_build_tree(struct session* s) {
	struct standalone* m = s->standalone;
	struct tree* tree = &s->planner.tree;
	const int most = s->log_probs.top > 0 ? LOGPROB_ROWS : SLICE_ROWS;
	/* a chain that fits comes first: alternatives take what it leaves */
	int left = most - 1 - m->chain->steps;
	for (int d = 0, at = 0; d < m->chain->steps; d++) {
		const struct result* step = &m->chain->result[d];
		const int more = least(width_of(s, step) - 1, left > 0 ? left : 0);
		const float above = tree->chance[at];
		int chain = 0;
		for (int rank = 0; rank <= more; rank++) {
			const float chance = rank == 0 ? m->chance[d] : (1 - m->chance[d]) / (float)(2 << rank);
			const int row = tree_add(tree, at, step->top_token[rank], 0, rank, above * chance);
			chain = rank == 0 ? row : chain;
		}
		left -= more;
		at = chain;
	}
}

static const float* state_of(const struct standalone* m, int step) {
	return m->chain->hidden + (size_t)step * (size_t)m->chain->setup.shape->dim;
}

float standalone_step_chance(const struct standalone* m) {
	const int last = m->chain->steps - 1;
	const struct result* step = &m->chain->result[last];
	if (m->stop.rule == STOP_PROBE && m->probe.known)
		return probe_chance(&m->probe, state_of(m, last));
	return m->stop.rule == STOP_PRODUCT || m->stop.rule == STOP_PROBE ? step->top_probability[0]
	                                                                  : step->max_probability;
}

/* ---- guesses ------------------------------------------------------------------------------ */

static float guess_chance(const struct standalone* m, int depth) {
	return (m->depth[depth].right + 1) / (m->depth[depth].trials + 2);
}

/* A chain's probabilities are those of the depths. */
static void stop_guess(struct session* s) {
	struct standalone* m = s->standalone;
	struct tree* tree = &s->planner.tree;
	m->why = "steps";
	for (int row = 1; row < tree->n; row++) {
		const float chance = guess_chance(m, tree->depth[row]);
		tree->chance[row] = tree->chance[tree->parent[row]] * chance;
	}
	if (m->stop.rule == STOP_FIXED || m->method->tree == TREE_GUESSED)
		return;
	for (int row = 1; row < tree->n; row++) {
		const float chance = guess_chance(m, row);
		const float by =
		    m->stop.rule == STOP_PROBE && m->probe.known ? probe_chance(&m->probe, &chance) : chance;
		if (stop_after(&m->stop, by, chance, &m->why)) {
			tree_cut(tree, row + 1);
			return;
		}
	}
}

void standalone_guess(struct session* s) {
	struct standalone* m = s->standalone;
	int depth = session_useful_depth(s, MAX_DRAFT);
	if (s->log_probs.top > 0)
		depth = m->method->tree == TREE_GUESSED ? 0 : least(depth, LOGPROB_ROWS - 1);
	m->drafter->grow(m->state, &s->planner.tree, depth);
	if (s->options.rejection && s->planner.tree.n > SLICE_ROWS)
		tree_cut(&s->planner.tree, SLICE_ROWS);
	stop_guess(s);
}

/* ---- learning ----------------------------------------------------------------------------- */

static void see(struct rate* rate, bool was_right) {
	const float keep = 0.995f;
	rate->right = rate->right * keep + (was_right ? 1.0f : 0.0f);
	rate->trials = rate->trials * keep + 1;
}

/* What the target said of each step, or guess, whose path was its own. */
static void learn_steps(struct session* s) {
	struct standalone* m = s->standalone;
	const struct tree* tree = &s->planner.tree;
	const struct verdict* v = &s->round.verdict;
	const int steps = m->chain                          ? m->chain->steps
	                  : m->method->tree == TREE_GUESSED ? m->method->most
	                                                    : tree->n - 1;
	bool right = true;
	for (int d = 0, row = 0; d < steps && d <= v->accepted && right; d++) {
		float top = m->chain ? m->chain->result[d].max_probability : guess_chance(m, d + 1);
		right = d < v->accepted;
		if (m->chain) {
			row = tree_child(tree, row, m->chain->result[d].token);
			right = right && v->path[d + 1] == row;
		} else
			see(&m->depth[d + 1], right);
		see(&m->bin[draft_bin(top)], right);
		if (m->stop.rule == STOP_PROBE)
			probe_see(&m->probe, m->chain ? state_of(m, d) : &top, right);
	}
}

static void fit_probe(struct session* s) {
	if (s->standalone->stop.rule != STOP_PROBE || !probe_is_due(&s->standalone->probe))
		return;
	const double began = options_clock(&s->options);
	probe_fit(&s->standalone->probe);
	s->figures.seconds.optimize += options_clock(&s->options) - began;
}

void standalone_learn(struct session* s, int emitted, int accepted) {
	struct standalone* m = s->standalone;
	const struct tree* tree = &s->planner.tree;
	const int drafted = m->chain ? m->chain->steps : tree->depth[tree->n - 1];
	s->figures.draft_steps += drafted;
	s->figures.draft_accepted += accepted;
	s->figures.exit_block = method_has_exit(m->method) ? m->chain->span / 2 : 0;
	m->accepted = accepted;
	m->drafted += m->chain ? drafted : 0;
	m->tokens += emitted;
	m->cost += s->round_cost;
	stop_learn(&m->stop, drafted, accepted);
	learn_steps(s);
	drafter_set_see(&s->drafters, tree, &s->round.verdict, s->round.out);
	fit_probe(s);
}
