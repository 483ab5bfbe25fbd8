/* Compiles GBNF, llama.cpp's grammars, into a program.
 *
 * Rules are emitted from back to front. So the right side of a rule is first read into a tree in an arena:
 * sequences and alternatives of literals, classes, rules and repeats. Rules that call themselves before they
 * consume anything would never end, so they are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/grammar/reader.h"
#include "core/grammar/states.h"

enum { MAX_NAMED = 1 << 12, MAX_NAME = 64, MAX_WORK = 1 << 22 };

struct named_rule {
	char name[MAX_NAME];
	int node; /* -1: not defined yet */
	int rule; /* of the program */
};

struct gbnf {
	struct reader reader;     /* first */
	struct named_rule* named; /* (n_named) */
	int n_named;
};

static struct gbnf* gbnf_of(struct reader* r) { return (struct gbnf*)r; }

static void report_error(const struct reader* r, const char* why) {
	int line = 1;
	for (size_t i = 0; i < r->at && i < r->size; i++)
		line += r->text[i] == '\n';
	error_set(r->error, "the grammar's line %d: %s", line, why);
}

/* Skips white space and comments, and line ends inside a rule. */
static void skip_space(struct reader* r, bool lines) {
	while (reader_more(r)) {
		const char c = r->text[r->at];
		if (c == '#')
			while (reader_more(r) && r->text[r->at] != '\n')
				r->at++;
		else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
			r->at++;
		else
			break;
	}
}

/* ---- characters ------------------------------------------------------------------------------ */

static const struct dialect dialect = {
    .letters = "ntr", .means = "\n\t\r", .hexadecimal = "xuU", .itself = "\"\\[]^-"};

static int parse_literal(struct reader* r) { /* after '"' */
	const int from = r->n_ranges;
	while (reader_more(r) && !reader_at(r, '"')) {
		const uint32_t code = reader_character(r, &dialect);
		reader_range(r, code, code);
	}
	if (!reader_take(r, '"'))
		return reader_fail(r, "a literal is not closed");
	return reader_ranges(r, NODE_TEXT, from);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool is_name(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The number of the rule with that name, which may not be defined yet. */
static int parse_name(struct reader* r) {
	const size_t from = r->at;
	while (reader_more(r) && is_name(r->text[r->at]))
		r->at++;
	const size_t n = r->at - from;
	if (n == 0 || n >= MAX_NAME)
		return reader_fail(r, "a name is expected, of at most 63 letters, digits, - and _");
	for (int i = 0; i < gbnf_of(r)->n_named; i++)
		if (memcmp(gbnf_of(r)->named[i].name, r->text + from, n) == 0 && !gbnf_of(r)->named[i].name[n])
			return i;
	if (gbnf_of(r)->n_named == MAX_NAMED ||
	    !grow_by_one(&gbnf_of(r)->named, (size_t)gbnf_of(r)->n_named, sizeof *gbnf_of(r)->named))
		return reader_fail(r, "more than 4096 rules");
	struct named_rule* named = &gbnf_of(r)->named[gbnf_of(r)->n_named];
	*named = (struct named_rule){.node = -1};
	memcpy(named->name, r->text + from, n);
	named->rule = strcmp(named->name, "root") == 0 ? 0 : program_rule(r->grammar);
	return gbnf_of(r)->n_named++;
}

static const struct syntax syntax;

static int parse_atom(struct reader* r) {
	if (reader_take(r, '"'))
		return parse_literal(r);
	if (reader_take(r, '['))
		return reader_class(r, &dialect);
	if (reader_take(r, '.')) {
		reader_range(r, 0, LAST_CODE);
		return reader_ranges(r, NODE_CLASS, r->n_ranges - 1);
	}
	if (reader_take(r, '(')) {
		const int inner = reader_alternatives(r, &syntax, true);
		return reader_take(r, ')') ? inner : reader_fail(r, "a group is not closed");
	}
	if (reader_at(r, '{'))
		return reader_fail(r, "a count has the form {m}, {m,} or {m,n} and follows the part that it counts");
	const int rule = parse_name(r);
	return reader_node(
	    r, (struct syntax_node){.kind = NODE_RULE, .a = r->failed ? 0 : gbnf_of(r)->named[rule].rule});
}

/* True when the next name begins a rule. */
static bool rule_ahead(const struct reader* r) {
	size_t at = r->at;
	while (at < r->size && is_name(r->text[at]))
		at++;
	while (at < r->size && (r->text[at] == ' ' || r->text[at] == '\t'))
		at++;
	return at + 3 <= r->size && memcmp(r->text + at, "::=", 3) == 0;
}

static const struct syntax syntax = {.atom = parse_atom, .ends = "|)\n\r", .skip = skip_space};

static void read_rules(struct reader* r) {
	for (skip_space(r, true); reader_more(r); skip_space(r, true)) {
		if (!rule_ahead(r)) {
			reader_fail(r, "a rule \"name ::= …\" is expected");
			return;
		}
		const int rule = parse_name(r);
		skip_space(r, false);
		r->at += 3;
		skip_space(r, true);
		if (!r->failed && gbnf_of(r)->named[rule].node >= 0)
			reader_fail(r, "a rule is defined twice");
		const int node = reader_alternatives(r, &syntax, false);
		if (!r->failed)
			gbnf_of(r)->named[rule].node = node;
	}
}

/* ---- the whole -------------------------------------------------------------------------------- */

static void fail_rule(struct reader* r, const struct named_rule* named, const char* why) {
	char text[128];
	snprintf(text, sizeof text, "the rule \"%s\" %s", named->name, why);
	reader_fail(r, text);
}

/* Checks that every rule is defined, and that there is a root. */
static void check_rules(struct reader* r) {
	bool root = false;
	for (int i = 0; i < gbnf_of(r)->n_named; i++) {
		root |= gbnf_of(r)->named[i].rule == 0;
		if (gbnf_of(r)->named[i].node < 0)
			fail_rule(r, &gbnf_of(r)->named[i], "is not defined");
	}
	if (!root)
		reader_fail(r, "there is no rule \"root\"");
}

static void emit_rules(struct reader* r, struct grammar* g) {
	for (int i = 0; i < gbnf_of(r)->n_named && !r->failed && !g->failed; i++) {
		const int32_t start = reader_emit(r, gbnf_of(r)->named[i].node, RETURNS);
		if (start == NOWHERE && !g->failed)
			reader_fail(r, "a rule matches nothing");
		g->rule[gbnf_of(r)->named[i].rule] = start;
	}
}

struct grammar* grammar_from_gbnf(const char* rules, size_t size, struct error* error) {
	struct grammar* g = program_open(error);
	struct gbnf gbnf = {.reader = {.text = rules,
	                               .size = size,
	                               .error = error,
	                               .report_error = report_error,
	                               .grammar = g,
	                               .characters = emit_characters,
	                               .most_work = MAX_WORK}};
	struct reader* const r = &gbnf.reader;
	if (!g)
		return NULL;
	read_rules(r);
	check_rules(r);
	emit_rules(r, g);
	const int recursive = r->failed || g->failed ? NOWHERE : program_left_recursion(g);
	for (int i = 0; i < gbnf.n_named && recursive != NOWHERE; i++)
		if (gbnf.named[i].rule == recursive)
			fail_rule(r, &gbnf.named[i], "begins with itself");
	reader_close(r);
	free(gbnf.named);
	return states_checked(program_close(g, !r->failed, error), error);
}
