/* Turns an expression's tree into an automaton over characters, from back to front. See expression.h. */
#include "core/grammar/expression.h"

#include <string.h>

#include "core/files/grow.h"
#include "core/grammar/automaton.h"

enum { MOST_NODES = 1 << 21 };

static int add_place(struct automaton* x, struct automaton_place place) {
	if (x->n == MAX_PLACES || !grow_by_one(&x->place, (size_t)x->n, sizeof *x->place))
		return reader_fail(x->r, "with it the grammar is too large");
	x->place[x->n] = place;
	return x->n++;
}

static int split(struct automaton* x, int a, int b) {
	if (a == NOWHERE || b == NOWHERE || a == b)
		return a == NOWHERE ? b : a;
	return add_place(x, (struct automaton_place){.kind = PLACE_SPLIT, .next = a, .other = b});
}

static int loop(struct automaton* x, int next) {
	return add_place(x, (struct automaton_place){.kind = PLACE_SPLIT, .next = next, .other = next});
}

static void close_loop(struct automaton* x, int at, int body) {
	if (!x->r->failed && body != NOWHERE)
		x->place[at].next = body;
}

static int characters(struct automaton* x, int a, int b, int next) {
	return add_place(x, (struct automaton_place){.kind = PLACE_CHARACTER, .a = a, .b = b, .next = next});
}

static int any_character(struct automaton* x, int next) {
	const int from = x->r->n_ranges;
	reader_range(x->r, 0, LAST_CODE);
	return characters(x, from, from + 1, next);
}

static int anything(struct automaton* x, int next) {
	const int at = loop(x, next);
	close_loop(x, at, any_character(x, at));
	return at;
}

static int emit(struct automaton*, int index, int next);

/* ---- conditions ------------------------------------------------------------------------------- */

/* Whether the text before is in the language, which the automaton then owns. */
static int text_before(struct automaton* x, struct language* l, bool must, int next) {
	enum { MOST_STATES = 254 };
	if (!l || l->n > MOST_STATES || x->n_before == MAX_BEFORE) {
		language_free(l);
		return reader_fail(x->r, "so much look-behind is not supported"), NOWHERE;
	}
	x->before[x->n_before++] = l;
	x->looks_back++;
	return add_place(
	    x, (struct automaton_place){.kind = PLACE_BEFORE, .a = x->n_before - 1, .b = must, .next = next});
}

/* The same of a language that has been asked for. */
static int again_before(struct automaton* x, int i, bool must, int next) {
	x->looks_back++;
	return add_place(x, (struct automaton_place){.kind = PLACE_BEFORE, .a = i, .b = must, .next = next});
}

static int text_ahead(struct automaton* x, int start, bool must, bool looks_back, int next) {
	return add_place(x, (struct automaton_place){
	                        .kind = PLACE_AHEAD, .a = start, .b = must, .next = next, .other = looks_back});
}

/* One language for all `^`, and one for all `\b`. */
static int known_before(struct automaton* x, int* known, const char* expression, bool must, int next) {
	if (*known >= 0)
		return again_before(x, *known, must, next);
	struct error ignored;
	struct language* l = *expression ? language_of_pattern(expression, strlen(expression), true, &ignored)
	                                 : language_of_length(0, 0);
	const int at = text_before(x, l, must, next);
	*known = x->r->failed ? NOWHERE : x->n_before - 1;
	return at;
}

static int look_ahead(struct automaton* x, const struct syntax_node* node, int next) {
	const int before = x->looks_back;
	const int start = emit(x, node->a, anything(x, 0));
	if (start == NOWHERE) /* nothing can come so */
		return node->most || x->r->failed ? NOWHERE : next;
	return text_ahead(x, start, node->most != 0, x->looks_back > before, next);
}

/* The text that is looked at ends here, so nothing within may ask for the rest. */
static int look_behind(struct automaton* x, const struct syntax_node* node, int next) {
	x->behind++;
	const int within = emit(x, node->a, 0);
	x->behind--;
	if (within == NOWHERE)
		return node->most || x->r->failed ? NOWHERE : next;
	struct language* l = automaton_language(x, anything(x, within), automaton_begin(x));
	return x->r->failed ? NOWHERE : text_before(x, l, node->most != 0, next);
}

/* A word's character on one side only, or, not `edge`, on both or none. */
static int word_edge(struct automaton* x, bool edge, int next) {
	static const char word[] = "[\\x00-\\u{10ffff}]*\\w";
	const int from = x->r->n_ranges;
	reader_range(x->r, '0', '9');
	reader_range(x->r, 'A', 'Z');
	reader_range(x->r, '_', '_');
	reader_range(x->r, 'a', 'z');
	const int start = characters(x, from, from + 4, anything(x, 0));
	const int after = text_ahead(x, start, !edge, false, next),
	          other = text_ahead(x, start, edge, false, next);
	const int inside = known_before(x, &x->word, word, true, after);
	return split(x, inside, known_before(x, &x->word, word, false, other));
}

/* ---- the tree --------------------------------------------------------------------------------- */

bool expression_looks(const struct reader* r, int index) {
	const struct syntax_node* node = &r->node[index];
	for (; node->kind == NODE_SEQUENCE || node->kind == NODE_EITHER; node = &r->node[node->a])
		if (expression_looks(r, node->b))
			return true;
	if (node->kind == NODE_REPEAT)
		return expression_looks(r, node->a);
	return node->kind == NODE_LOOK_AHEAD || node->kind == NODE_LOOK_BEHIND || node->kind == NODE_WORD_EDGE;
}

static int emit_repeat(struct automaton* x, const struct syntax_node* node, int next) {
	int at = next;
	if (node->most < 0) {
		at = loop(x, next);
		close_loop(x, at, emit(x, node->a, at));
	}
	for (int i = node->least; i < node->most && !x->r->failed; i++)
		at = split(x, emit(x, node->a, at), next);
	for (int i = 0; i < node->least && !x->r->failed; i++)
		at = emit(x, node->a, at);
	return at;
}

static int emit_sequence(struct automaton* x, int index, int next) {
	for (; x->r->node[index].kind == NODE_SEQUENCE && next != NOWHERE && !x->r->failed;
	     index = x->r->node[index].a)
		next = emit(x, x->r->node[index].b, next);
	return next == NOWHERE ? NOWHERE : emit(x, index, next);
}

static int emit(struct automaton* x, int index, int next) {
	int all = NOWHERE;
	if (x->r->failed || next == NOWHERE)
		return NOWHERE;
	if (++x->r->work > MOST_NODES)
		return reader_fail(x->r, "with it the grammar is too large"), NOWHERE;
	for (; x->r->node[index].kind == NODE_EITHER; index = x->r->node[index].a)
		all = split(x, emit(x, x->r->node[index].b, next), all);
	const struct syntax_node node = x->r->node[index];
	if (x->behind && (node.kind == NODE_LOOK_AHEAD || node.kind == NODE_WORD_EDGE || node.kind == NODE_END))
		return reader_fail(x->r, "look-ahead, \\b and $ within look-behind are not supported"), NOWHERE;
	switch (node.kind) {
	case NODE_SEQUENCE:
		return split(x, emit_sequence(x, index, next), all);
	case NODE_CLASS:
		return node.a == node.b ? all : split(x, characters(x, node.a, node.b, next), all);
	case NODE_REPEAT:
		return split(x, emit_repeat(x, &node, next), all);
	case NODE_LOOK_AHEAD:
		return split(x, look_ahead(x, &node, next), all);
	case NODE_LOOK_BEHIND:
		return split(x, look_behind(x, &node, next), all);
	case NODE_WORD_EDGE:
		return split(x, word_edge(x, node.most != 0, next), all);
	case NODE_START:
		return split(x, known_before(x, &x->empty, "", true, next), all);
	case NODE_END:
		return split(x, next == 0 ? 0 : text_ahead(x, any_character(x, anything(x, 0)), false, false, next),
		             all);
	default:
		return split(x, next, all);
	}
}

struct language* expression_language(struct reader* r, int node, bool whole) {
	struct automaton x = {.r = r, .empty = NOWHERE, .word = NOWHERE};
	add_place(&x, (struct automaton_place){.kind = PLACE_END});
	int start = emit(&x, node, whole ? 0 : anything(&x, 0));
	if (!whole && start != NOWHERE)
		start = anything(&x, start);
	struct language* language = r->failed ? NULL : automaton_language(&x, start, automaton_begin(&x));
	automaton_close(&x);
	return language;
}
