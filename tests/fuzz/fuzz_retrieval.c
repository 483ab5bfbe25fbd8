/* Any bytes as what happens to a sequence's drafters and to a pool: texts appended, cut and begun anew,
 * predictions, trees grown in any shape. The tree keeps its order and bounds, its probabilities are
 * probabilities, and nothing is proposed that no text held. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/speculate.h"
#include "core/draft/retrieval.h"

enum { CONTEXT = 96, POOL = 64, VOCAB = 8, DEPTH = 12 };

/* Tokens expected from verifying the tree, the bonus token included. */
static float expected(const struct tree* tree) {
	float sum = 0;
	for (int row = 0; row < tree->n; row++)
		sum += tree->chance[row];
	return sum;
}

static void check_tree(const struct tree* tree, const struct round_limits* limits) {
	if (tree->n < 1 || tree->n > limits->rows || !(expected(tree) >= 1) || expected(tree) > 1.001f + DEPTH)
		abort();
	for (int row = 1; row < tree->n; row++) {
		const int parent = tree->parent[row];
		if (parent < 0 || parent >= row || tree->depth[row] != tree->depth[parent] + 1 ||
		    tree->depth[row] > limits->depth || !(tree->chance[row] > 0) ||
		    !(tree->chance[row] <= tree->chance[parent]) || tree->token[row] < 0 ||
		    tree->token[row] >= VOCAB || tree_child(tree, parent, tree->token[row]) != row)
			abort();
	}
}

/* One round: the target's tokens come from the bytes. Returns the tokens emitted. */
static int play_round(struct planner* p, int32_t root, int room, const uint8_t* data, size_t size,
                      int32_t* emitted) {
	static struct result out[MAX_ROWS];
	const struct round_limits limits = {1 + data[0] % SLICE_ROWS, room < DEPTH ? room : DEPTH,
	                                    (float)(data[0] / 16)};
	struct verdict verdict;
	planner_start(p, root, &limits);
	if (planner_next(p).kind != PLAN_VERIFY)
		abort();
	check_tree(&p->tree, &limits);
	for (int row = 0; row < p->tree.n; row++) {
		out[row].top = data[(size_t)row % size] % 4;
		for (int k = 0; k < out[row].top; k++) {
			out[row].top_token[k] = data[((size_t)row + (size_t)k) % size] % VOCAB;
			out[row].top_probability[k] = (float)data[(size_t)k % size] / 255;
		}
		out[row].token = data[(size_t)(7 * row + 3) % size] % VOCAB;
	}
	tree_verify(&p->tree, out, &verdict);
	for (int i = 0; i <= verdict.accepted; i++)
		emitted[i] = out[verdict.path[i]].token;
	planner_see(p, &verdict, out, verdict.accepted + 1, p->costs.verify[p->tree.n]);
	return verdict.accepted + 1;
}

struct sequence {
	struct drafter_set set;
	struct acceptance acceptance;
	struct planner planner;
	struct retrieval_pool* pool;
	int32_t text[2 * CONTEXT];
	int n;
};

static void open_sequence(struct sequence* s) {
	const unsigned which = 1u << SOURCE_prediction | 1u << SOURCE_retrieval | 1u << SOURCE_recycle;
	struct cost_table costs = {.verify = {0}};
	s->n = 0;
	s->pool = retrieval_pool_open(POOL);
	if (!s->pool ||
	    !drafter_set_open(&s->set, which, &(struct drafter_setup){.context = CONTEXT, .vocab = VOCAB}))
		abort();
	retrieval_use_pool(s->set.state[SOURCE_retrieval], s->pool);
	acceptance_open(&s->acceptance);
	planner_open(&s->planner, &s->set, &s->acceptance);
	for (int i = 1; i <= SLICE_ROWS; i++)
		costs.verify[i] = 1 + (float)(i / 4) * 0.01f;
	for (int i = 0; i < DRAFTER_COUNT; i++)
		costs.pass[i] = costs.pass_worst[i] = INFINITY;
	planner_set_costs(&s->planner, &costs);
}

/* Tokens join the sequence; a drafter is given a few beyond its context. */
static void add(struct sequence* s, const int32_t* token, int n) {
	const int room = CONTEXT + 20 - s->n;
	n = n < room ? n : room;
	drafter_set_append(&s->set, token, n);
	memcpy(s->text + s->n, token, (size_t)n * sizeof *token);
	s->n += n;
}

/* Applies one event: a kind, a length, that many bytes. Returns the bytes taken beside those two. */
static size_t happen(struct sequence* s, const uint8_t* data, size_t size) {
	int32_t token[256];
	const size_t length = data[1] < size - 2 ? data[1] : size - 2;
	for (size_t i = 0; i < length; i++)
		token[i] = data[2 + i] % VOCAB;
	switch (data[0] % 6) {
	case 0:
		add(s, token, (int)length);
		break;
	case 1:
		s->n = s->n > 0 ? data[1] % s->n : 0;
		drafter_set_begin(&s->set, &(struct drafter_text){.prompt = s->text, .n_prompt = s->n});
		return 0;
	case 2:
		retrieval_pool_add(s->pool, token, (int)length);
		break;
	case 3:
		drafters[SOURCE_prediction]->begin(
		    s->set.state[SOURCE_prediction],
		    &(struct drafter_text){.expected = token, .n_expected = (int)length});
		break;
	default:
		if (s->n > 0 && s->n < CONTEXT && length > 0)
			add(s, token,
			    play_round(&s->planner, s->text[s->n - 1], CONTEXT - s->n, data + 2, length, token));
	}
	return length;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	static struct sequence s;
	open_sequence(&s);
	while (size > 2) {
		const size_t taken = 2 + happen(&s, data, size);
		data += taken;
		size -= taken;
	}
	drafter_set_close(&s.set);
	retrieval_pool_close(s.pool);
	return 0;
}
