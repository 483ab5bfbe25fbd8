/* GBNF, the grammars of llama.cpp, into a program.
 *
 * A rule is emitted from back to front as all else is, so its right side is read to a tree first: sequences
 * and alternatives of literals, classes, rules and repeats, in an arena. Rules that call themselves before
 * they consume anything would go on for ever: those are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/utf8.h"
#include "core/grammar/program.h"

enum { MAX_NODES = 1 << 14, MAX_RANGES = 1 << 14, MAX_NAMED = 1 << 9, MAX_NAME = 64, MAX_DEPTH = 64 };
enum { MAX_REPEAT = 4096, MAX_WORK = 1 << 22, LAST_CODE = 0x10ffff, UNBOUNDED = -1 };

enum node_kind { NODE_EMPTY, NODE_TEXT, NODE_CLASS, NODE_RULE, NODE_SEQUENCE, NODE_EITHER, NODE_REPEAT };

struct node {
	enum node_kind kind;
	int a, b;        /* children; REPEAT a; RULE a; ranges [a, b) of CLASS and, one a character, TEXT */
	int least, most; /* REPEAT */
};

struct range {
	uint32_t low, high;
};

struct named {
	char name[MAX_NAME];
	int node; /* -1: not said yet */
	int rule; /* of the program */
};

struct reader {
	const char* text;
	size_t size, at;
	int depth;
	struct node* node; /* (MAX_NODES) */
	int n_nodes;
	struct range* range; /* (MAX_RANGES) */
	int n_ranges;
	struct named* named; /* (MAX_NAMED) */
	int n_named, work;
	struct error* error;
	bool failed;
};

static int fail(struct reader* r, const char* why) {
	int line = 1;
	for (size_t i = 0; i < r->at && i < r->size; i++)
		line += r->text[i] == '\n';
	if (!r->failed)
		error_set(r->error, "the grammar's line %d: %s", line, why);
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
		fail(r, "too many characters");
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

/* White space and comments; a line's end too where a rule may go on there. */
static void skip(struct reader* r, bool lines) {
	while (more(r)) {
		const char c = r->text[r->at];
		if (c == '#')
			while (more(r) && r->text[r->at] != '\n')
				r->at++;
		else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
			r->at++;
		else
			break;
	}
}

/* ---- characters ------------------------------------------------------------------------------ */

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
	return code <= LAST_CODE ? code : (uint32_t)fail(r, "no character has this number");
}

static uint32_t character(struct reader* r) {
	uint32_t code = 0;
	if (!take(r, '\\')) {
		const size_t length = utf8_character(r->text + r->at, r->size - r->at, &code);
		if (length == 0)
			return (uint32_t)fail(r, "malformed UTF-8");
		r->at += length;
		return code;
	}
	const char c = more(r) ? r->text[r->at++] : 0;
	switch (c) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'r':
		return '\r';
	case 'x':
		return hexadecimal(r, 2);
	case 'u':
		return hexadecimal(r, 4);
	case 'U':
		return hexadecimal(r, 8);
	case '"':
	case '\\':
	case '[':
	case ']':
	case '^':
	case '-':
		return (uint8_t)c;
	default:
		return (uint32_t)fail(r, "this escape is not known");
	}
}

static int literal(struct reader* r) { /* after '"' */
	const int from = r->n_ranges;
	while (more(r) && !at_char(r, '"')) {
		const uint32_t code = character(r);
		add_range(r, code, code);
	}
	if (!take(r, '"'))
		return fail(r, "a literal is not closed");
	return add_node(r, (struct node){.kind = NODE_TEXT, .a = from, .b = r->n_ranges});
}

static int compare_ranges(const void* a, const void* b) {
	const struct range *x = a, *y = b;
	return (x->low > y->low) - (x->low < y->low);
}

/* What the sorted ranges from `from` on leave out, in their place. */
static void negate(struct reader* r, int from) {
	const int n = r->n_ranges - from;
	uint32_t low = 0;
	qsort(r->range + from, (size_t)n, sizeof *r->range, compare_ranges);
	for (int i = 0; i < n && !r->failed; i++) {
		const struct range range = r->range[from + i];
		if (low < range.low)
			add_range(r, low, range.low - 1);
		low = range.high >= low ? range.high + 1 : low;
	}
	if (low <= LAST_CODE)
		add_range(r, low, LAST_CODE);
	if (r->failed)
		return;
	memmove(r->range + from, r->range + from + n, (size_t)(r->n_ranges - from - n) * sizeof *r->range);
	r->n_ranges -= n;
}

static int class(struct reader* r) { /* after '[' */
	const int from = r->n_ranges;
	const bool negated = take(r, '^');
	while (more(r) && !at_char(r, ']')) {
		const uint32_t low = character(r);
		uint32_t high = low;
		if (at_char(r, '-') && r->at + 1 < r->size && r->text[r->at + 1] != ']') {
			r->at++;
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
	return add_node(r, (struct node){.kind = NODE_CLASS, .a = from, .b = r->n_ranges});
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool is_name(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The number of the rule of that name, which may not be said yet. */
static int name(struct reader* r) {
	const size_t from = r->at;
	while (more(r) && is_name(r->text[r->at]))
		r->at++;
	const size_t n = r->at - from;
	if (n == 0 || n >= MAX_NAME)
		return fail(r, "a name is expected, of at most 63 letters, digits, - and _");
	for (int i = 0; i < r->n_named; i++)
		if (strlen(r->named[i].name) == n && memcmp(r->named[i].name, r->text + from, n) == 0)
			return i;
	if (r->n_named == MAX_NAMED)
		return fail(r, "more than 512 rules");
	struct named* named = &r->named[r->n_named];
	*named = (struct named){.node = -1};
	memcpy(named->name, r->text + from, n);
	return r->n_named++;
}

static int alternatives(struct reader*, bool nested);

static int atom(struct reader* r) {
	if (take(r, '"'))
		return literal(r);
	if (take(r, '['))
		return class(r);
	if (take(r, '.')) {
		add_range(r, 0, LAST_CODE);
		return add_node(r, (struct node){.kind = NODE_CLASS, .a = r->n_ranges - 1, .b = r->n_ranges});
	}
	if (take(r, '(')) {
		const int inner = alternatives(r, true);
		return take(r, ')') ? inner : fail(r, "a group is not closed");
	}
	const int rule = name(r);
	return add_node(r, (struct node){.kind = NODE_RULE, .a = rule});
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

static bool repeat(struct reader* r, int* least, int* most) {
	*least = 0;
	*most = UNBOUNDED;
	if (take(r, '*'))
		return true;
	if (take(r, '+'))
		return *least = 1, true;
	if (take(r, '?'))
		return *most = 1, true;
	if (!take(r, '{'))
		return false;
	const int low = number(r);
	*least = low < 0 ? 0 : low;
	*most = take(r, ',') ? number(r) : low;
	if (!take(r, '}') || (*most >= 0 && *most < *least) || (low < 0 && *most < 0))
		fail(r, "a count is {m}, {m,} or {m,n}");
	return true;
}

/* Whether the name ahead begins the next rule. */
static bool rule_ahead(const struct reader* r) {
	size_t at = r->at;
	while (at < r->size && is_name(r->text[at]))
		at++;
	while (at < r->size && (r->text[at] == ' ' || r->text[at] == '\t'))
		at++;
	return at + 3 <= r->size && memcmp(r->text + at, "::=", 3) == 0;
}

static int sequence(struct reader* r, bool nested) {
	int all = add_node(r, (struct node){.kind = NODE_EMPTY});
	for (;;) {
		skip(r, nested);
		if (!more(r) || strchr("|)\n\r", r->text[r->at]))
			return all;
		int next = atom(r), least, most;
		skip(r, false);
		while (more(r) && repeat(r, &least, &most)) {
			next = add_node(r, (struct node){.kind = NODE_REPEAT, .a = next, .least = least, .most = most});
			skip(r, false);
		}
		all = add_node(r, (struct node){.kind = NODE_SEQUENCE, .a = all, .b = next});
	}
}

static int alternatives(struct reader* r, bool nested) {
	if (++r->depth > MAX_DEPTH)
		return fail(r, "groups are nested too deep");
	int all = sequence(r, nested);
	for (;;) {
		skip(r, nested);
		const size_t here = r->at;
		skip(r, true); /* an alternative may stand on the next line */
		if (!at_char(r, '|')) {
			r->at = here;
			break;
		}
		r->at++;
		skip(r, true);
		const int next = sequence(r, nested);
		all = add_node(r, (struct node){.kind = NODE_EITHER, .a = all, .b = next});
	}
	r->depth--;
	return all;
}

static void read_rules(struct reader* r) {
	for (skip(r, true); more(r); skip(r, true)) {
		if (!rule_ahead(r)) {
			fail(r, "a rule \"name ::= …\" is expected");
			return;
		}
		const int rule = name(r);
		skip(r, false);
		r->at += 3;
		skip(r, true);
		if (!r->failed && r->named[rule].node >= 0)
			fail(r, "a rule is said twice");
		const int node = alternatives(r, false);
		if (!r->failed)
			r->named[rule].node = node;
	}
}

/* ---- emission -------------------------------------------------------------------------------- */

static int32_t emit_node(struct reader* r, struct grammar* g, int index, int32_t next);

static int32_t emit_ranges(struct reader* r, struct grammar* g, const struct node* node, int32_t next) {
	int32_t all = NOWHERE;
	for (int i = node->a; i < node->b; i++)
		all = emit_split(g, emit_characters(g, r->range[i].low, r->range[i].high, next), all);
	return all;
}

static int32_t emit_letters(struct reader* r, struct grammar* g, const struct node* node, int32_t next) {
	for (int i = node->b - 1; i >= node->a; i--)
		next = emit_characters(g, r->range[i].low, r->range[i].low, next);
	return next;
}

static int32_t emit_repeat(struct reader* r, struct grammar* g, const struct node* node, int32_t next) {
	int32_t at = next;
	if (node->most < 0) {
		at = emit_loop(g, next);
		loop_close(g, at, emit_node(r, g, node->a, at));
	}
	for (int i = node->least; i < node->most && !g->failed; i++)
		at = emit_split(g, emit_node(r, g, node->a, at), next);
	for (int i = 0; i < node->least && !g->failed; i++)
		at = emit_node(r, g, node->a, at);
	return at;
}

/* Sequences and alternatives lean to the left, as long as they are: those are walked, not descended. */
static int32_t emit_node(struct reader* r, struct grammar* g, int index, int32_t next) {
	int32_t all = NOWHERE;
	if (++r->work > MAX_WORK)
		g->failed = true;
	if (g->failed)
		return NOWHERE;
	for (; r->node[index].kind == NODE_EITHER; index = r->node[index].a)
		all = emit_split(g, emit_node(r, g, r->node[index].b, next), all);
	for (; r->node[index].kind == NODE_SEQUENCE && next != NOWHERE; index = r->node[index].a)
		next = emit_node(r, g, r->node[index].b, next);
	const struct node* node = &r->node[index];
	if (next == NOWHERE)
		return all;
	switch (node->kind) {
	case NODE_TEXT:
		return emit_split(g, emit_letters(r, g, node, next), all);
	case NODE_CLASS:
		return emit_split(g, emit_ranges(r, g, node, next), all);
	case NODE_RULE:
		return emit_split(g, emit_call(g, r->named[node->a].rule, next), all);
	case NODE_REPEAT:
		return emit_split(g, emit_repeat(r, g, node, next), all);
	default:
		return emit_split(g, next, all);
	}
}

/* ---- rules that begin with themselves --------------------------------------------------------- */

/* Whether a node can match nothing, as far as the rules marked in `empty` are known to. */
static bool may_be_empty(struct reader* r, const bool* empty, int index) {
	const struct node* node = &r->node[index];
	bool rest = true;
	if (++r->work > MAX_WORK) {
		fail(r, "the grammar is too large");
		return true;
	}
	for (; node->kind == NODE_EITHER; node = &r->node[node->a])
		if (may_be_empty(r, empty, node->b))
			return true;
	for (; node->kind == NODE_SEQUENCE; node = &r->node[node->a])
		rest = rest && may_be_empty(r, empty, node->b);
	switch (node->kind) {
	case NODE_TEXT:
		return rest && node->a == node->b;
	case NODE_CLASS:
		return false;
	case NODE_RULE:
		return rest && empty[node->a];
	case NODE_REPEAT:
		return rest && (node->least == 0 || may_be_empty(r, empty, node->a));
	default: /* a sequence begins with what is empty */
		return rest;
	}
}

/* Marks in `first` the rules that a node may begin with. */
static void add_first(struct reader* r, const bool* empty, int index, bool* first) {
	const struct node* node = &r->node[index];
	for (; node->kind == NODE_EITHER; node = &r->node[node->a])
		add_first(r, empty, node->b, first);
	for (; node->kind == NODE_SEQUENCE; node = &r->node[node->a])
		if (may_be_empty(r, empty, node->a))
			add_first(r, empty, node->b, first);
	if (node->kind == NODE_RULE)
		first[node->a] = true;
	else if (node->kind == NODE_REPEAT)
		add_first(r, empty, node->a, first);
}

/* By Warshall's (1962) closure of "may begin with". */
static void refuse_left_recursion(struct reader* r) {
	const size_t n = (size_t)r->n_named;
	bool* empty = calloc(n, sizeof *empty);
	bool* first = calloc(n * n, sizeof *first);
	bool changed = empty && first;
	if (!changed)
		fail(r, "out of memory");
	while (changed && !r->failed) {
		changed = false;
		for (size_t i = 0; i < n; i++)
			if (!empty[i] && may_be_empty(r, empty, r->named[i].node))
				empty[i] = changed = true;
	}
	for (size_t i = 0; i < n && !r->failed; i++)
		add_first(r, empty, r->named[i].node, first + i * n);
	for (size_t k = 0; k < n && !r->failed; k++)
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j < n && first[i * n + k]; j++)
				first[i * n + j] |= first[k * n + j];
	for (size_t i = 0; i < n && !r->failed; i++)
		if (first[i * n + i]) {
			char why[128];
			snprintf(why, sizeof why, "the rule \"%s\" begins with itself", r->named[i].name);
			fail(r, why);
		}
	free(empty);
	free(first);
}

/* ---- the whole -------------------------------------------------------------------------------- */

static int find_root(struct reader* r) {
	int root = -1;
	for (int i = 0; i < r->n_named && !r->failed; i++) {
		if (strcmp(r->named[i].name, "root") == 0)
			root = i;
		if (r->named[i].node < 0) {
			char why[128];
			snprintf(why, sizeof why, "the rule \"%s\" is not said", r->named[i].name);
			fail(r, why);
		}
	}
	if (root < 0)
		fail(r, "there is no rule \"root\"");
	return root;
}

static void emit_rules(struct reader* r, struct grammar* g, int root) {
	for (int i = 0; i < r->n_named; i++)
		r->named[i].rule = i == root ? 0 : program_rule(g);
	for (int i = 0; i < r->n_named && !g->failed; i++) {
		const int32_t start = emit_node(r, g, r->named[i].node, RETURNS);
		if (start == NOWHERE && !g->failed) {
			fail(r, "a rule matches nothing");
			return;
		}
		if (!g->failed)
			g->rule[r->named[i].rule] = start;
	}
}

struct grammar* grammar_from_gbnf(const char* rules, size_t size, struct error* error) {
	struct reader r = {.text = rules, .size = size, .error = error};
	struct grammar* g = program_open();
	r.node = malloc(MAX_NODES * sizeof *r.node);
	r.range = malloc(MAX_RANGES * sizeof *r.range);
	r.named = malloc(MAX_NAMED * sizeof *r.named);
	if (!g || !r.node || !r.range || !r.named)
		fail(&r, "out of memory");
	else {
		read_rules(&r);
		const int root = r.failed ? 0 : find_root(&r);
		if (!r.failed)
			refuse_left_recursion(&r);
		r.work = 0;
		if (!r.failed)
			emit_rules(&r, g, root);
	}
	free(r.node);
	free(r.range);
	free(r.named);
	if (!r.failed && program_close(g, error))
		return g;
	grammar_free(g);
	return NULL;
}
