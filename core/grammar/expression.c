/* Turns an expression's tree into an automaton over characters, from back to front. See expression.h. */
#include "core/grammar/expression.h"

#include <string.h>

#include "core/files/grow.h"
#include "core/grammar/automaton.h"
#include "core/grammar/letter_case.h"

enum { MOST_NODES = 1 << 21 };

static int add_place(struct automaton* x, struct automaton_place place) {
	if (x->n == MAX_PLACES || !grow_by_one(&x->place, (size_t)x->n, sizeof *x->place))
		return reader_fail(x->r, "this part makes the grammar too large");
	x->place[x->n] = place;
	return x->n++;
}

static int add_split(struct automaton* x, int a, int b) {
	if (a == NOWHERE || b == NOWHERE || a == b)
		return a == NOWHERE ? b : a;
	return add_place(x, (struct automaton_place){.kind = PLACE_SPLIT, .next = a, .other = b});
}

static int add_loop(struct automaton* x, int next) {
	return add_place(x, (struct automaton_place){.kind = PLACE_SPLIT, .next = next, .other = next});
}

static void close_loop(struct automaton* x, int at, int body) {
	if (!x->r->failed && body != NOWHERE)
		x->place[at].next = body;
}

static int add_characters(struct automaton* x, int a, int b, int next) {
	return add_place(x, (struct automaton_place){.kind = PLACE_CHARACTER, .a = a, .b = b, .next = next});
}

static int any_character(struct automaton* x, int next) {
	const int from = x->r->n_ranges;
	reader_range(x->r, 0, LAST_CODE);
	return add_characters(x, from, from + 1, next);
}

static int add_anything(struct automaton* x, int next) {
	const int at = add_loop(x, next);
	close_loop(x, at, any_character(x, at));
	return at;
}

static int emit_expression(struct automaton*, int index, int next);

/* ---- conditions ------------------------------------------------------------------------------- */

/* Whether the text before is in the language, which the automaton then owns. */
static int text_before(struct automaton* x, struct language* l, bool must, int next) {
	enum { MOST_STATES = 254 };
	if (!l || l->n > MOST_STATES || x->n_before == MAX_BEFORE) {
		language_free(l);
		return reader_fail(x->r, "the look-behind conditions are too many or too large"), NOWHERE;
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
	const int start = emit_expression(x, node->a, add_anything(x, 0));
	if (start == NOWHERE) /* nothing can come so */
		return node->most || x->r->failed ? NOWHERE : next;
	return text_ahead(x, start, node->most != 0, x->looks_back > before, next);
}

/* The text that is looked at ends here, so nothing within may ask for the rest. */
static int look_behind(struct automaton* x, const struct syntax_node* node, int next) {
	x->behind++;
	const int within = emit_expression(x, node->a, 0);
	x->behind--;
	if (within == NOWHERE)
		return node->most || x->r->failed ? NOWHERE : next;
	struct language* l = automaton_language(x, add_anything(x, within), automaton_begin(x));
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
	const int start = add_characters(x, from, from + 4, add_anything(x, 0));
	const int after = text_ahead(x, start, !edge, false, next),
	          other = text_ahead(x, start, edge, false, next);
	const int inside = known_before(x, &x->word, word, true, after);
	return add_split(x, inside, known_before(x, &x->word, word, false, other));
}

/* ---- the tree --------------------------------------------------------------------------------- */

bool expression_looks(const struct reader* r, int index) {
	const struct syntax_node* node = &r->node[index];
	for (; node->kind == NODE_SEQUENCE || node->kind == NODE_EITHER; node = &r->node[node->a])
		if (expression_looks(r, node->b))
			return true;
	if (node->kind == NODE_REPEAT)
		return expression_looks(r, node->a);
	return node->kind == NODE_LOOK_AHEAD || node->kind == NODE_LOOK_BEHIND || node->kind == NODE_WORD_EDGE ||
	       node->kind == NODE_GROUP || node->kind == NODE_BACK;
}

bool expression_anchors(const struct reader* r, int index) {
	const struct syntax_node* node = &r->node[index];
	for (; node->kind == NODE_SEQUENCE || node->kind == NODE_EITHER; node = &r->node[node->a])
		if (expression_anchors(r, node->b))
			return true;
	if (node->kind == NODE_REPEAT || node->kind == NODE_GROUP)
		return expression_anchors(r, node->a);
	return node->kind == NODE_START || node->kind == NODE_END;
}

/* ---- back-references -------------------------------------------------------------------------- */

/* Whether a node of an expression refers to the group. */
static bool refers_to(const struct reader* r, int index, int group) {
	const struct syntax_node* node = &r->node[index];
	for (; node->kind == NODE_SEQUENCE || node->kind == NODE_EITHER; node = &r->node[node->a])
		if (refers_to(r, node->b, group))
			return true;
	if (node->kind == NODE_REPEAT || node->kind == NODE_GROUP || node->kind == NODE_LOOK_AHEAD ||
	    node->kind == NODE_LOOK_BEHIND)
		return refers_to(r, node->a, group);
	return node->kind == NODE_BACK && node->b == group;
}

/* The last group that is a part of the sequence, that later parts refer to, and whose text is not fixed yet;
 * NOWHERE: there is none. */
static int group_to_fix(const struct automaton* x, int index) {
	const struct syntax_node* node = x->r->node;
	for (int at = index; node[at].kind == NODE_SEQUENCE; at = node[at].a) {
		const int part = node[at].b;
		if (node[part].kind != NODE_GROUP || x->fixed[node[part].b - 1])
			continue;
		for (int later = index; later != at; later = node[later].a)
			if (refers_to(x->r, node[later].b, node[part].b))
				return part;
	}
	return NOWHERE;
}

static int fixed_text(struct automaton* x, const struct fixed_text* text, bool any_case, int next) {
	const bool before = x->r->any_case;
	x->r->any_case = any_case;
	for (int i = text->n - 1; i >= 0 && next != NOWHERE && !x->r->failed; i--) {
		const int from = x->r->n_ranges;
		letter_range(x->r, text->code[i], text->code[i]);
		reader_ranges(x->r, NODE_CLASS, from);
		next = add_characters(x, from, x->r->n_ranges, next);
	}
	x->r->any_case = before;
	return next;
}

/* Emits the sequence once for each text that the group may be: those from a state of its language on. */
static int each_text(struct automaton* x, int index, int group, const struct language* l, int state,
                     struct fixed_text* text, int next) {
	int all = NOWHERE;
	if (l->ends[state]) {
		if (++x->texts > MAX_FIXED)
			return reader_fail(x->r,
			                   "a back-reference is supported only to a group that matches at most 64 texts"),
			       NOWHERE;
		const struct fixed_text* const before = x->fixed[group - 1];
		x->fixed[group - 1] = text;
		all = emit_expression(x, index, next);
		x->fixed[group - 1] = before;
	}
	for (int e = l->first[state]; e < l->first[state + 1] && !x->r->failed; e++) {
		const uint32_t past = e + 1 < l->first[state + 1] ? l->edge[e + 1].low : LAST_CODE + 1;
		if (l->edge[e].to < 0)
			continue;
		if (text->n == MAX_FIXED_LENGTH || past - l->edge[e].low > MAX_FIXED)
			return reader_fail(x->r,
			                   "a back-reference is supported only to a group that matches at most 64 texts"),
			       NOWHERE;
		for (uint32_t code = l->edge[e].low; code < past && !x->r->failed; code++) {
			text->code[text->n++] = code;
			all = add_split(x, each_text(x, index, group, l, l->edge[e].to, text, next), all);
			text->n--;
		}
	}
	return all;
}

static int fix_group(struct automaton* x, int index, int part, int next) {
	const struct syntax_node group = x->r->node[part];
	struct fixed_text text = {.n = 0};
	if (expression_looks(x->r, group.a) || expression_anchors(x->r, group.a))
		return reader_fail(x->r, "a back-reference to a group with conditions is not supported"), NOWHERE;
	struct language* l = expression_language(x->r, group.a, true);
	const int all = l && l->n > 0 ? each_text(x, index, group.b, l, 0, &text, next) : NOWHERE;
	language_free(l);
	return all;
}

/* A group, or a reference to one. */
static int emit_group(struct automaton* x, const struct syntax_node* node, int next) {
	const struct fixed_text* const text = x->fixed[node->b - 1];
	if (text)
		return fixed_text(x, text, node->kind == NODE_BACK && node->most, next);
	if (node->kind == NODE_GROUP)
		return emit_expression(x, node->a, next);
	return reader_fail(
	           x->r, "a back-reference is supported only if its group stands before it in the same sequence"),
	       NOWHERE;
}

static int emit_repeat(struct automaton* x, const struct syntax_node* node, int next) {
	int at = next;
	if (node->most < 0) {
		at = add_loop(x, next);
		close_loop(x, at, emit_expression(x, node->a, at));
	}
	for (int i = node->least; i < node->most && !x->r->failed; i++)
		at = add_split(x, emit_expression(x, node->a, at), next);
	for (int i = 0; i < node->least && !x->r->failed; i++)
		at = emit_expression(x, node->a, at);
	return at;
}

static int emit_sequence(struct automaton* x, int index, int next) {
	const int part = x->r->refers ? group_to_fix(x, index) : NOWHERE;
	if (part >= 0)
		return fix_group(x, index, part, next);
	for (; x->r->node[index].kind == NODE_SEQUENCE && next != NOWHERE && !x->r->failed;
	     index = x->r->node[index].a)
		next = emit_expression(x, x->r->node[index].b, next);
	return next == NOWHERE ? NOWHERE : emit_expression(x, index, next);
}

static int emit_expression(struct automaton* x, int index, int next) {
	int all = NOWHERE;
	if (x->r->failed || next == NOWHERE)
		return NOWHERE;
	if (++x->r->work > MOST_NODES)
		return reader_fail(x->r, "this part makes the grammar too large"), NOWHERE;
	for (; x->r->node[index].kind == NODE_EITHER; index = x->r->node[index].a)
		all = add_split(x, emit_expression(x, x->r->node[index].b, next), all);
	const struct syntax_node node = x->r->node[index];
	if (x->behind && (node.kind == NODE_LOOK_AHEAD || node.kind == NODE_WORD_EDGE || node.kind == NODE_END))
		return reader_fail(x->r, "look-ahead, \\b and $ within look-behind are not supported"), NOWHERE;
	switch (node.kind) {
	case NODE_SEQUENCE:
		return add_split(x, emit_sequence(x, index, next), all);
	case NODE_CLASS:
		return node.a == node.b ? all : add_split(x, add_characters(x, node.a, node.b, next), all);
	case NODE_REPEAT:
		return add_split(x, emit_repeat(x, &node, next), all);
	case NODE_LOOK_AHEAD:
		return add_split(x, look_ahead(x, &node, next), all);
	case NODE_LOOK_BEHIND:
		return add_split(x, look_behind(x, &node, next), all);
	case NODE_GROUP:
	case NODE_BACK:
		return add_split(x, emit_group(x, &node, next), all);
	case NODE_WORD_EDGE:
		return add_split(x, word_edge(x, node.most != 0, next), all);
	case NODE_START:
		return add_split(x, known_before(x, &x->empty, "", true, next), all);
	case NODE_END:
		return add_split(
		    x, next == 0 ? 0 : text_ahead(x, any_character(x, add_anything(x, 0)), false, false, next), all);
	default:
		return add_split(x, next, all);
	}
}

struct language* expression_language(struct reader* r, int node, bool whole) {
	struct automaton x = {.r = r, .empty = NOWHERE, .word = NOWHERE};
	add_place(&x, (struct automaton_place){.kind = PLACE_END});
	int start = emit_expression(&x, node, whole ? 0 : add_anything(&x, 0));
	if (!whole && start != NOWHERE)
		start = add_anything(&x, start);
	struct language* language = r->failed ? NULL : automaton_language(&x, start, automaton_begin(&x));
	automaton_close(&x);
	return language;
}
