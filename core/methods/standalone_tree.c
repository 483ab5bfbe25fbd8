/* Builds the tree from a standalone drafter's steps, and learns from its verification. */
#include "core/decode/session.h"
#include "core/methods/standalone.h"

/* ---- steps -------------------------------------------------------------------------------- */

static int width_of(const struct standalone* m, const struct session_view* view, const struct result* step) {
	int width = 1;
	if (m->method->tree == TREE_CHILDREN)
		width = m->options->standalone.children > 0 ? m->options->standalone.children : m->choice.children;
	else if (m->method->tree == TREE_WIDE)
		width = tree_width(options_top_k(m->options, view->sampler != NULL), step->max_probability);
	return least(width, step->top);
}

void standalone_build_tree(struct standalone* m) {
	const struct session_view view = session_view(m->session);
	struct tree* tree = view.tree;
	/* the chain goes first, and alternatives fill the rest */
	int left = least(view.most_rows, SLICE_ROWS) - 1 - m->chain->steps;
	for (int d = 0, at = 0; d < m->chain->steps; d++) {
		const struct result* step = &m->chain->result[d];
		const int more = least(width_of(m, &view, step) - 1, left > 0 ? left : 0);
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

/* A chain's probabilities are those of its depths. */
static void stop_guess(struct standalone* m, struct tree* tree) {
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

void standalone_guess(struct standalone* m) {
	const struct session_view view = session_view(m->session);
	int depth = session_useful_depth(m->session, MAX_DRAFT);
	if (view.most_rows < MAX_ROWS)
		depth = m->method->tree == TREE_GUESSED ? 0 : least(depth, view.most_rows - 1);
	m->drafter->grow(m->state, view.tree, depth);
	if (m->options->standalone.rejection && view.tree->n > SLICE_ROWS)
		tree_cut(view.tree, SLICE_ROWS);
	stop_guess(m, view.tree);
}

/* ---- learning ----------------------------------------------------------------------------- */

static void see_tree(struct rate* rate, bool was_right) {
	const float keep = 0.995f;
	rate->right = rate->right * keep + (was_right ? 1.0f : 0.0f);
	rate->trials = rate->trials * keep + 1;
}

/* The target's verdict on each step, or guess, whose path was the target's own. */
static void learn_steps(struct standalone* m, const struct tree* tree, const struct verdict* v) {
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
			see_tree(&m->depth[d + 1], right);
		see_tree(&m->bin[draft_bin(top)], right);
		if (m->stop.rule == STOP_PROBE)
			probe_see(&m->probe, m->chain ? state_of(m, d) : &top, right);
	}
}

static void fit_probe(struct standalone* m) {
	if (m->stop.rule != STOP_PROBE || !probe_is_due(&m->probe))
		return;
	const double began = options_clock(m->options);
	probe_fit(&m->probe);
	m->figures.optimize += options_clock(m->options) - began;
}

void standalone_learn(struct driver* driver, int emitted, int accepted, double cost) {
	struct standalone* m = (struct standalone*)driver;
	const struct session_view view = session_view(m->session);
	const struct tree* tree = view.tree;
	const struct verdict* verdict = &view.round->verdict;
	const int drafted = m->chain ? m->chain->steps : tree->depth[tree->n - 1];
	m->figures.steps += drafted;
	m->figures.accepted += accepted;
	m->figures.exit_block = method_has_exit(m->method) ? m->chain->span / 2 : 0;
	m->accepted = accepted;
	m->drafted += m->chain ? drafted : 0;
	m->tokens += emitted;
	m->cost += cost;
	stop_learn(&m->stop, drafted, accepted);
	learn_steps(m, tree, verdict);
	if (m->drafter->see)
		m->drafter->see(m->state, tree, verdict, view.round->out);
	fit_probe(m);
}
