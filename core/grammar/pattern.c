/* See pattern.h. Parsing is recursive descent over an arena of nodes; its depth is bounded. */
#include "core/grammar/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/utf8.h"

enum { MAX_NODES = 1 << 14, MAX_RANGES = 1 << 14, MAX_DEPTH = 64, MAX_REPEAT = 1 << 12 };
enum { LAST_CODE = 0x10ffff, UNBOUNDED = -1 };

enum node_kind { NODE_EMPTY, NODE_CLASS, NODE_SEQUENCE, NODE_EITHER, NODE_REPEAT, NODE_START, NODE_END };

struct range {
	uint32_t low, high;
};

struct node {
	enum node_kind kind;
	int a, b;        /* children: SEQUENCE, EITHER; REPEAT a; ranges [a, b) of CLASS */
	int least, most; /* REPEAT */
};

struct reader {
	const char* text;
	size_t size, at;
	int depth;
	struct node* node; /* (MAX_NODES) */
	int n_nodes;
	struct range* range; /* (MAX_RANGES) */
	int n_ranges;
	struct error* error;
	bool failed;
};

static int fail(struct reader* r, const char* why) {
	if (!r->failed)
		error_set(r->error, "the expression \"%.*s\": %s at byte %zu", (int)(r->size < 200 ? r->size : 200),
		          r->text, why, r->at);
	r->failed = true;
	return 0;
}

static int add_node(struct reader* r, struct node node) {
	if (r->n_nodes == MAX_NODES)
		return fail(r, "too many parts");
	r->node[r->n_nodes] = node;
	return r->n_nodes++;
}

static void add_range(struct reader* r, uint32_t low, uint32_t high) {
	if (r->n_ranges == MAX_RANGES)
		fail(r, "too many classes of characters");
	else
		r->range[r->n_ranges++] = (struct range){low, high};
}

static bool more(const struct reader* r) { return r->at < r->size && !r->failed; }
static bool at_char(const struct reader* r, char c) { return more(r) && r->text[r->at] == c; }
static bool take(struct reader* r, char c) {
	const bool here = at_char(r, c);
	r->at += here;
	return here;
}

/* ---- classes -------------------------------------------------------------------------------- */

static int compare_ranges(const void* a, const void* b) {
	const struct range *x = a, *y = b;
	return (x->low > y->low) - (x->low < y->low);
}

/* Sorts the ranges from `from` on and joins those that touch. */
static void tidy(struct reader* r, int from) {
	qsort(r->range + from, (size_t)(r->n_ranges - from), sizeof *r->range, compare_ranges);
	int n = from;
	for (int i = from; i < r->n_ranges; i++) {
		if (n > from && r->range[i].low <= r->range[n - 1].high + 1) {
			if (r->range[i].high > r->range[n - 1].high)
				r->range[n - 1].high = r->range[i].high;
		} else
			r->range[n++] = r->range[i];
	}
	r->n_ranges = n;
}

static void negate(struct reader* r, int from) {
	tidy(r, from);
	const int n = r->n_ranges - from;
	uint32_t low = 0;
	for (int i = 0; i < n && !r->failed; i++) {
		const struct range range = r->range[from + i];
		if (low < range.low)
			add_range(r, low, range.low - 1);
		low = range.high + 1;
	}
	if (low <= LAST_CODE)
		add_range(r, low, LAST_CODE);
	if (r->failed)
		return;
	memmove(r->range + from, r->range + from + n, (size_t)(r->n_ranges - from - n) * sizeof *r->range);
	r->n_ranges -= n;
}

/* \d, \w, \s and what is not of them. False: the letter is another escape's. */
static bool add_named(struct reader* r, char letter) {
	static const struct range digit[] = {{'0', '9'}};
	static const struct range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
	static const struct range space[] = {
	    {9, 13},          {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
	    {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
	const char lower = (char)(letter | 0x20);
	const struct range* of = lower == 'd' ? digit : lower == 'w' ? word : lower == 's' ? space : NULL;
	if (!of)
		return false;
	const int n = lower == 'd' ? 1 : lower == 'w' ? 4 : 10, from = r->n_ranges;
	for (int i = 0; i < n; i++)
		add_range(r, of[i].low, of[i].high);
	if (letter != lower && !r->failed)
		negate(r, from);
	return true;
}

static uint32_t hexadecimal(struct reader* r, int digits) {
	uint32_t code = 0;
	for (int i = 0; i < digits; i++) {
		const char c = more(r) ? r->text[r->at++] : 0;
		const int value = c >= '0' && c <= '9'   ? c - '0'
		                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
		                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
		                                         : -1;
		if (value < 0)
			return (uint32_t)fail(r, "a hexadecimal digit is missing");
		code = code << 4 | (uint32_t)value;
	}
	return code;
}

/* One character that stands for itself, or an escape of one. */
static uint32_t character(struct reader* r) {
	uint32_t code = 0;
	if (!take(r, '\\')) {
		const size_t length = utf8_character(r->text + r->at, r->size - r->at, &code);
		if (length == 0)
			return (uint32_t)fail(r, "malformed UTF-8");
		r->at += length;
		return code;
	}
	if (!more(r))
		return (uint32_t)fail(r, "nothing follows the backslash");
	const char c = r->text[r->at++];
	switch (c) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'r':
		return '\r';
	case 'f':
		return '\f';
	case 'v':
		return '\v';
	case '0':
		return 0;
	case 'x':
		return hexadecimal(r, 2);
	case 'u':
		return hexadecimal(r, 4);
	default:
		if ((c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (uint8_t)c >= 0x80)
			return (uint32_t)fail(r, "this escape is not supported");
		return (uint8_t)c;
	}
}

static bool named_ahead(const struct reader* r) {
	return at_char(r, '\\') && r->at + 1 < r->size && strchr("dDwWsS", r->text[r->at + 1]);
}

/* After '['. */
static int class(struct reader* r) {
	const int from = r->n_ranges;
	const bool negated = take(r, '^');
	while (more(r) && !at_char(r, ']')) {
		if (named_ahead(r)) {
			r->at += 2;
			add_named(r, r->text[r->at - 1]);
			continue;
		}
		const bool backspace = r->at + 1 < r->size && r->text[r->at] == '\\' && r->text[r->at + 1] == 'b';
		if (backspace)
			r->at += 2;
		const uint32_t low = backspace ? 8 : character(r);
		uint32_t high = low;
		if (at_char(r, '-') && r->at + 1 < r->size && r->text[r->at + 1] != ']') {
			r->at++;
			if (named_ahead(r))
				return fail(r, "a class cannot end a range");
			high = character(r);
		}
		if (high < low)
			return fail(r, "a range is the wrong way round");
		add_range(r, low, high);
	}
	if (!take(r, ']'))
		return fail(r, "a class is not closed");
	if (negated && !r->failed)
		negate(r, from);
	else
		tidy(r, from);
	return add_node(r, (struct node){.kind = NODE_CLASS, .a = from, .b = r->n_ranges});
}

/* ---- expressions ---------------------------------------------------------------------------- */

static int alternatives(struct reader*);

/* After '('. */
static int group(struct reader* r) {
	if (take(r, '?')) {
		if (take(r, '<')) {
			if (at_char(r, '=') || at_char(r, '!'))
				return fail(r, "look-behind is not supported");
			while (more(r) && r->text[r->at] != '>')
				r->at++;
			r->at++;
		} else if (!take(r, ':'))
			return fail(r, "look-ahead and flags are not supported");
	}
	const int inner = alternatives(r);
	if (!take(r, ')'))
		return fail(r, "a group is not closed");
	return inner;
}

static int one_class(struct reader* r, int from) {
	return add_node(r, (struct node){.kind = NODE_CLASS, .a = from, .b = r->n_ranges});
}

static int atom(struct reader* r) {
	const int from = r->n_ranges;
	if (take(r, '('))
		return group(r);
	if (take(r, '['))
		return class(r);
	if (take(r, '^'))
		return add_node(r, (struct node){.kind = NODE_START});
	if (take(r, '$'))
		return add_node(r, (struct node){.kind = NODE_END});
	if (take(r, '.')) {
		add_range(r, '\n', '\n');
		add_range(r, '\r', '\r');
		add_range(r, 0x2028, 0x2029);
		if (!r->failed)
			negate(r, from);
		return one_class(r, from);
	}
	if (named_ahead(r)) {
		r->at += 2;
		add_named(r, r->text[r->at - 1]);
		return one_class(r, from);
	}
	if (at_char(r, '*') || at_char(r, '+') || at_char(r, '?'))
		return fail(r, "nothing to repeat");
	const uint32_t code = character(r);
	add_range(r, code, code);
	return one_class(r, from);
}

static int number(struct reader* r) {
	int value = UNBOUNDED;
	while (more(r) && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
		value = (value < 0 ? 0 : value) * 10 + (r->text[r->at++] - '0');
		if (value > MAX_REPEAT)
			return fail(r, "a count is over 4096");
	}
	return value;
}

/* {m}, {m,}, {m,n}; false where the brace stands for itself. */
static bool counts(struct reader* r, int* least, int* most) {
	const size_t start = r->at;
	if (!take(r, '{'))
		return false;
	*least = *most = number(r);
	if (*least >= 0 && take(r, ','))
		*most = number(r);
	if (*least >= 0 && take(r, '}'))
		return true;
	r->at = start;
	return false;
}

static int repeated(struct reader* r) {
	int node = atom(r);
	while (more(r)) {
		int least = 0, most = UNBOUNDED;
		if (take(r, '+'))
			least = 1;
		else if (take(r, '?'))
			most = 1;
		else if (!take(r, '*') && !counts(r, &least, &most))
			break;
		take(r, '?');
		if (most >= 0 && most < least)
			return fail(r, "a count is the wrong way round");
		node = add_node(r, (struct node){.kind = NODE_REPEAT, .a = node, .least = least, .most = most});
	}
	return node;
}

static int sequence(struct reader* r) {
	int all = add_node(r, (struct node){.kind = NODE_EMPTY});
	while (more(r) && !at_char(r, '|') && !at_char(r, ')')) {
		if (at_char(r, '{') && r->at == 0)
			return fail(r, "nothing to repeat");
		const int next = repeated(r);
		all = add_node(r, (struct node){.kind = NODE_SEQUENCE, .a = all, .b = next});
	}
	return all;
}

static int alternatives(struct reader* r) {
	if (++r->depth > MAX_DEPTH)
		return fail(r, "groups are nested too deep");
	int all = sequence(r);
	while (take(r, '|')) {
		const int next = sequence(r);
		all = add_node(r, (struct node){.kind = NODE_EITHER, .a = all, .b = next});
	}
	r->depth--;
	return all;
}

/* ---- emission ------------------------------------------------------------------------------- */

enum { MAX_WORK = 1 << 20 };

struct emission {
	struct grammar* grammar;
	struct reader* reader;
	enum pattern_text text;
	int32_t next; /* after the whole expression */
	int work;     /* nodes emitted: repeats of what is empty emit nothing, and are bounded all the same */
};

static int32_t emit_class(struct emission* e, const struct node* node, int32_t next) {
	int32_t all = NOWHERE;
	for (int i = node->a; i < node->b; i++) {
		const struct range* range = &e->reader->range[i];
		all = emit_split(e->grammar,
		                 e->text == PATTERN_JSON
		                     ? emit_json_characters(e->grammar, range->low, range->high, next)
		                     : emit_characters(e->grammar, range->low, range->high, next),
		                 all);
	}
	return all;
}

static int32_t emit_node(struct emission* e, int index, int32_t next);

static int32_t emit_repeat(struct emission* e, const struct node* node, int32_t next) {
	struct grammar* g = e->grammar;
	int32_t at = next;
	if (node->most < 0) {
		at = emit_loop(g, next);
		loop_close(g, at, emit_node(e, node->a, at));
	}
	for (int i = node->least; i < node->most && !g->failed; i++)
		at = emit_split(g, emit_node(e, node->a, at), next);
	for (int i = 0; i < node->least && !g->failed; i++)
		at = emit_node(e, node->a, at);
	return at;
}

/* Sequences and alternatives lean to the left, as long as they are: those are walked, not descended. */
static int32_t emit_either(struct emission* e, int index, int32_t next) {
	int32_t all = NOWHERE;
	for (; e->reader->node[index].kind == NODE_EITHER; index = e->reader->node[index].a)
		all = emit_split(e->grammar, emit_node(e, e->reader->node[index].b, next), all);
	return emit_split(e->grammar, emit_node(e, index, next), all);
}

/* Anchors were looked at before: here they match nothing. */
static int32_t emit_node(struct emission* e, int index, int32_t next) {
	if (++e->work > MAX_WORK)
		e->grammar->failed = true;
	while (e->reader->node[index].kind == NODE_SEQUENCE && !e->grammar->failed) {
		next = emit_node(e, e->reader->node[index].b, next);
		index = e->reader->node[index].a;
	}
	if (next == NOWHERE)
		return NOWHERE;
	const struct node* node = &e->reader->node[index];
	switch (node->kind) {
	case NODE_CLASS:
		return emit_class(e, node, next);
	case NODE_EITHER:
		return emit_either(e, index, next);
	case NODE_REPEAT:
		return emit_repeat(e, node, next);
	default:
		return next;
	}
}

/* ---- anchors -------------------------------------------------------------------------------- */

static bool holds_anchor(const struct reader* r, int index) {
	const struct node* node = &r->node[index];
	for (; node->kind == NODE_SEQUENCE || node->kind == NODE_EITHER; node = &r->node[node->a])
		if (holds_anchor(r, node->b))
			return true;
	if (node->kind == NODE_REPEAT)
		return holds_anchor(r, node->a);
	return node->kind == NODE_START || node->kind == NODE_END;
}

/* Any text, as long as one likes. */
static int32_t emit_anything(struct emission* e, int32_t next) {
	const int32_t loop = emit_loop(e->grammar, next);
	const int32_t body = e->text == PATTERN_JSON ? emit_json_characters(e->grammar, 0, LAST_CODE, loop)
	                                             : emit_characters(e->grammar, 0, LAST_CODE, loop);
	loop_close(e->grammar, loop, body);
	return loop;
}

/* An alternative: a chain of sequences whose first part may be `^` and whose last may be `$`. */
static int32_t emit_alternative(struct emission* e, int index, bool whole) {
	struct reader* r = e->reader;
	int32_t next = e->next;
	bool ends = whole, starts = whole, last = true;
	for (; r->node[index].kind == NODE_SEQUENCE; index = r->node[index].a) {
		const int part = r->node[index].b;
		const enum node_kind kind = r->node[part].kind;
		const bool first = r->node[r->node[index].a].kind == NODE_EMPTY;
		if (kind == NODE_END && last) {
			ends = true;
			continue;
		}
		if (last && !ends)
			next = emit_anything(e, next);
		last = false;
		if (kind == NODE_START && first) {
			starts = true;
			continue;
		}
		if (holds_anchor(r, part))
			return (int32_t)fail(r, "^ and $ are supported where a text begins and ends");
		next = emit_node(e, part, next);
	}
	if (last && !ends)
		next = emit_anything(e, next);
	return starts ? next : emit_anything(e, next);
}

static int32_t emit_alternatives(struct emission* e, int index, bool whole) {
	int32_t all = NOWHERE;
	for (; e->reader->node[index].kind == NODE_EITHER && !e->reader->failed; index = e->reader->node[index].a)
		all = emit_split(e->grammar, emit_alternative(e, e->reader->node[index].b, whole), all);
	return emit_split(e->grammar, emit_alternative(e, index, whole), all);
}

int32_t pattern_emit(struct grammar* grammar, const char* expression, size_t size, bool whole,
                     enum pattern_text text, int32_t next, struct error* error) {
	struct reader r = {.text = expression, .size = size, .error = error};
	r.node = malloc(MAX_NODES * sizeof *r.node);
	r.range = malloc(MAX_RANGES * sizeof *r.range);
	int32_t start = NOWHERE;
	if (!r.node || !r.range)
		error_set(error, "out of memory for an expression");
	else {
		int root = alternatives(&r);
		if (!r.failed && r.at < r.size)
			fail(&r, "a parenthesis too many");
		struct emission e = {.grammar = grammar, .reader = &r, .text = text, .next = next};
		if (!r.failed)
			start = emit_alternatives(&e, root, whole);
		if (r.failed)
			start = NOWHERE;
		else if (start == NOWHERE)
			fail(&r, "it matches nothing");
	}
	free(r.node);
	free(r.range);
	return start;
}
