/* The draft model's rows in a round. They are the cache's pending rows, in the same order. */
#include "core/draft/mask.h"

#include <stdlib.h>

#include "core/draft/shortlist.h"

struct mask_drafter {
	struct mask_round round;
	int n;                          /* rows with results */
	int filled;                     /* rows of the pass that is under way */
	int32_t token[MAX_ROWS];        /* (n) */
	int32_t parent[MAX_ROWS];       /* (n) */
	struct result result[MAX_ROWS]; /* (n) */
	uint8_t want[MAX_ROWS];
	int of[MAX_ROWS]; /* our row that stands for a row of the tree, or -1 */
	struct shortlist shortlist;
	bool drafted;                      /* the prompt's length in this text; later tokens are generated */
	const uint64_t* allowed[MAX_ROWS]; /* all the shortlist's */
};

static void mask_close(void* state) {
	struct mask_drafter* m = state;
	shortlist_close(&m->shortlist);
	free(m);
}

static void* mask_open(const struct drafter_setup* setup) {
	struct mask_drafter* m = calloc(1, sizeof *m);
	if (!m || shortlist_open(&m->shortlist, setup->vocab))
		return m;
	mask_close(m);
	return NULL;
}

static void mask_begin(void* state, const struct drafter_text* text) {
	struct mask_drafter* m = state;
	shortlist_begin(&m->shortlist);
	shortlist_take(&m->shortlist, text->prompt, text->n_prompt, false);
	m->drafted = false;
}

static void mask_append(void* state, const int32_t* token, int n) {
	struct mask_drafter* m = state;
	shortlist_take(&m->shortlist, token, n, m->drafted);
}

static void take_shortlist(struct mask_drafter* m, double head_share) {
	if (!m->drafted)
		shortlist_take(&m->shortlist, m->round.end_token, m->round.n_end_tokens, false);
	m->drafted = true;
	const uint64_t* bits = head_share > 0 ? shortlist_bits(&m->shortlist, head_share) : NULL;
	for (int i = 0; bits && i < MAX_ROWS; i++)
		m->allowed[i] = bits;
	m->round.segment.allowed = bits ? m->allowed : NULL;
}

/* Greedy rows give their likeliest tokens nearly for free. Sampled rows would need noise for many more. */
static uint8_t mask_wants(const void* state) {
	const struct mask_drafter* m = state;
	return m->round.head_share > 0 && !m->round.segment.sampler ? WANT_TOP | WANT_ROUGH : 0;
}

static void mask_see(void* state, const struct tree* tree, const struct verdict* verdict,
                     const struct result* out) {
	struct mask_drafter* m = state;
	(void)tree;
	for (int i = 0; i <= verdict->accepted; i++) {
		const struct result* row = &out[verdict->path[i]];
		if (row->top > 0)
			shortlist_see(&m->shortlist, row->top_token, row->top);
	}
}

void mask_start(void* state, const struct mask_round* round) {
	struct mask_drafter* m = state;
	m->round = *round;
	m->round.segment.base = round->segment.cache->committed;
	m->n = m->filled = 0;
	take_shortlist(m, round->head_share);
}

int mask_rows(const void* state) { return ((const struct mask_drafter*)state)->n; }

/* The row for the tree's root; -1 before it has run. */
static int find_root(const struct mask_drafter* m) { return m->n > 0 ? m->round.n_behind : -1; }

static int find_child(const struct mask_drafter* m, int row, int32_t token) {
	for (int i = row + 1; row >= 0 && i < m->n; i++)
		if (m->parent[i] == row && m->token[i] == token)
			return i;
	return -1;
}

int mask_steps(const void* state) {
	const struct mask_drafter* m = state;
	int steps = 0;
	for (int at = find_root(m); at >= 0; at = find_child(m, at, m->result[at].token))
		steps++;
	return steps;
}

static bool is_end(const struct mask_drafter* m, int32_t token) {
	for (int i = 0; i < m->round.n_end_tokens; i++)
		if (m->round.end_token[i] == token)
			return true;
	return false;
}

static int mask_extend(void* state, const struct tree* tree, int row, struct candidate* out, int most) {
	struct mask_drafter* m = state;
	m->of[row] = row == 0 ? find_root(m) : find_child(m, m->of[tree->parent[row]], tree->token[row]);
	if (m->of[row] < 0)
		return 0;
	const struct result* result = &m->result[m->of[row]];
	const int n = result->top < most ? result->top : most;
	const int width = m->round.top_k ? tree_width(m->round.top_k, result->max_probability) : n;
	for (int i = 0; i < n; i++)
		out[i] = (struct candidate){.token = result->top_token[i],
		                            .bin = (uint8_t)draft_bin(result->max_probability),
		                            .spare = i >= width};
	return n;
}

static int mask_head(void* state, const struct tree* tree) {
	const struct mask_drafter* m = state;
	int row = 0;
	while (row >= 0 && m->of[row] >= 0)
		row = tree_child(tree, row, m->result[m->of[row]].token);
	return row < 0 || m->n == MAX_ROWS || is_end(m, tree->token[row]) ? -1 : row;
}

static int add_row(struct mask_drafter* m, int32_t token, int parent, uint8_t want) {
	const int i = m->n + m->filled++;
	m->token[i] = token;
	m->parent[i] = parent;
	m->want[i] = want;
	m->result[i].top = TREE_RANKS;
	return i;
}

/* After the first pass each pass has one row, whose state is the one of the row before it. */
static void take_states(const struct mask_drafter* m, int width, struct pass* pass) {
	const int before = m->parent[m->n];
	pass->state = m->n == 0 ? m->round.states : m->round.own_states + (size_t)before * (size_t)width;
	pass->normed_out = m->round.own_states + (size_t)m->n * (size_t)width;
}

static void mask_fill(void* state, const struct tree* tree, int head, int carry, struct pass* pass) {
	struct mask_drafter* m = state;
	m->filled = 0;
	const uint8_t want = WANT_TOKEN | WANT_TOP | WANT_GUESS;
	for (int i = 0; m->n == 0 && i < m->round.n_behind; i++)
		add_row(m, m->round.behind[i], i - 1, WANT_NOTHING);
	m->of[head] =
	    add_row(m, tree->token[head], head == 0 ? m->round.n_behind - 1 : m->of[tree->parent[head]], want);
	const int most = m->filled + carry;
	for (int row = head + 1; row < tree->n && m->filled < most && m->n + m->filled < MAX_ROWS; row++)
		if (m->of[tree->parent[row]] >= m->n && !is_end(m, tree->token[row]))
			m->of[row] = add_row(m, tree->token[row], m->of[tree->parent[row]], want);
	struct segment* const segment = &m->round.segment;
	segment->n = m->filled;
	*pass = pass_over(segment, m->token + m->n, m->parent + m->n,
	                  2 * segment->cache->backend->weights->shape.n_blocks, m->want + m->n, m->result + m->n);
	pass->skip = m->round.skip;
	pass->head = true;
	if (m->round.own_states)
		take_states(m, state_width(&segment->cache->backend->weights->shape), pass);
}

const struct result* mask_results(const void* state) { return ((const struct mask_drafter*)state)->result; }

void mask_judge(const void* state, const struct tree* tree, const struct result* out, int* steps,
                int* right) {
	const struct mask_drafter* m = state;
	int row = 0, at = find_root(m);
	*steps = *right = 0;
	while (row >= 0 && at >= 0) {
		++*steps;
		*right += m->result[at].token == out[row].token;
		at = find_child(m, at, out[row].token);
		row = tree_child(tree, row, out[row].token);
	}
}

static void mask_take(void* state) {
	struct mask_drafter* m = state;
	m->n += m->filled;
	m->filled = 0;
}

struct result* mask_loop_results(void* state) {
	struct mask_drafter* m = state;
	for (int i = 0; i < MAX_DRAFT; i++)
		m->result[i].top = TREE_RANKS;
	return m->result;
}

void mask_take_loop(void* state, int32_t root, int steps) {
	struct mask_drafter* m = state;
	for (int i = 0; i < steps; i++) {
		m->token[i] = i == 0 ? root : m->result[i - 1].token;
		m->parent[i] = i - 1;
	}
	m->n = steps;
}

/* Before anything is learned, the first choice counts as right as often as its probability is, and
 * each further one in half of the cases in which those before it are wrong. */
static float mask_prior(int bin, int rank) {
	const float p = ((float)bin + 0.5f) / DRAFT_BINS;
	return rank == 0 ? p : 0.5f;
}

/* The calls that this model with a mask, another model and an MTP layer have in common. */
#define STEPS_BY_PASSES                                                                                      \
	.bins = DRAFT_BINS, .prior = mask_prior, .open = mask_open, .close = mask_close, .extend = mask_extend,  \
	.head = mask_head, .take = mask_take

const struct drafter drafter_mask = {STEPS_BY_PASSES,     .begin = mask_begin, .append = mask_append,
                                     .wants = mask_wants, .see = mask_see,     .fill = mask_fill};

/* Only this drafter manages the other model's cache. Rows that verification accepts stay there as text. Other
 * tokens of the text go with the next round's first pass. */
static void model_see(void* state, const struct tree* tree, const struct verdict* verdict,
                      const struct result* out) {
	struct mask_drafter* m = state;
	struct cache* cache = m->round.segment.cache;
	int32_t path[MAX_ROWS];
	int n = 0, at = find_root(m);
	(void)out;
	for (int i = 0; at >= 0 && i < m->round.n_behind; i++)
		path[n++] = i;
	for (int i = 0; at >= 0; i++) {
		path[n++] = at;
		at = i < verdict->accepted ? find_child(m, at, tree->token[verdict->path[i + 1]]) : -1;
	}
	if (n > 0)
		cache->backend->commit(cache, path, n);
}

const struct drafter drafter_model = {STEPS_BY_PASSES, .see = model_see, .fill = mask_fill};

/* Keeps the rows that began with states of the model: all up to the root. The others, which are drafts, are
 * computed again if they were right. */
static void mtp_see(void* state, const struct tree* tree, const struct verdict* verdict,
                    const struct result* out) {
	struct mask_drafter* m = state;
	struct cache* cache = m->round.segment.cache;
	int32_t path[MAX_ROWS];
	mask_see(state, tree, verdict, out);
	for (int i = 0; i <= find_root(m); i++)
		path[i] = i;
	if (m->round.segment.reads)
		cache->backend->discard(cache);
	else if (m->n > 0)
		cache->backend->commit(cache, path, find_root(m) + 1);
}

/* Rows below the head cannot go with it: they begin with its state. */
static void mtp_fill(void* state, const struct tree* tree, int head, int carry, struct pass* pass) {
	(void)carry;
	mask_fill(state, tree, head, 0, pass);
}

const struct drafter drafter_mtp = {STEPS_BY_PASSES,     .begin = mask_begin, .append = mask_append,
                                    .wants = mask_wants, .see = mtp_see,      .fill = mtp_fill};
