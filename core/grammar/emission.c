/* Characters, repeats, sequences and alternatives; emission.h says of what. */
#include "core/grammar/emission.h"

static int32_t emit_ranges(struct emission* e, const struct node* node, int32_t next) {
	int32_t all = NOWHERE;
	for (int i = node->a; i < node->b; i++) {
		const struct range* range = &e->reader->range[i];
		all = emit_split(e->grammar, e->characters(e->grammar, range->low, range->high, next), all);
	}
	return all;
}

static int32_t emit_letters(struct emission* e, const struct node* node, int32_t next) {
	for (int i = node->b - 1; i >= node->a; i--)
		next = e->characters(e->grammar, e->reader->range[i].low, e->reader->range[i].low, next);
	return next;
}

static int32_t emit_repeat(struct emission* e, const struct node* node, int32_t next) {
	struct grammar* g = e->grammar;
	int32_t at = next;
	if (node->most < 0) {
		at = emit_loop(g, next);
		loop_close(g, at, emission_node(e, node->a, at));
	}
	for (int i = node->least; i < node->most && !g->failed; i++)
		at = emit_split(g, emission_node(e, node->a, at), next);
	for (int i = 0; i < node->least && !g->failed; i++)
		at = emission_node(e, node->a, at);
	return at;
}

/* Sequences and alternatives lean to the left, as long as they are: those are walked, not descended. */
int32_t emission_node(struct emission* e, int index, int32_t next) {
	struct grammar* g = e->grammar;
	const struct node* tree = e->reader->node;
	int32_t all = NOWHERE;
	if (++e->work > e->most_work)
		g->failed = true;
	if (g->failed)
		return NOWHERE;
	for (; tree[index].kind == NODE_EITHER; index = tree[index].a)
		all = emit_split(g, emission_node(e, tree[index].b, next), all);
	for (; tree[index].kind == NODE_SEQUENCE && next != NOWHERE; index = tree[index].a)
		next = emission_node(e, tree[index].b, next);
	const struct node* node = &tree[index];
	if (next == NOWHERE)
		return all;
	switch (node->kind) {
	case NODE_TEXT:
		return emit_split(g, emit_letters(e, node, next), all);
	case NODE_CLASS:
		return emit_split(g, emit_ranges(e, node, next), all);
	case NODE_RULE:
		return emit_split(g, emit_call(g, node->b, next), all);
	case NODE_REPEAT:
		return emit_split(g, emit_repeat(e, node, next), all);
	default:
		return emit_split(g, next, all);
	}
}
