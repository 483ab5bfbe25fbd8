/* See pattern_group.h. */
#include "core/grammar/pattern_group.h"

#include <stdlib.h>
#include <string.h>

#include "core/grammar/expression.h"

/* ---- what gives nothing back -------------------------------------------------------------------- */

/* Whether no text of the node goes on to be another, so that there is one way to match it at a place. */
static bool is_definite(struct reader* r, int node) {
	if (r->node[node].kind == NODE_CLASS)
		return true;
	if (expression_looks(r, node) || expression_anchors(r, node))
		return false;
	struct language* l = expression_language(r, node, true);
	bool definite = l != NULL;
	for (int s = 0; definite && s < l->n; s++)
		for (int e = l->first[s]; e < l->first[s + 1]; e++)
			definite = definite && !(l->ends[s] && l->edge[e].to >= 0);
	language_free(l);
	return definite;
}

static const char indefinite[] = "an atomic group or a possessive repeat of parts that may end in several "
                                 "places is not supported: write (?:...), or "
                                 "the repeat without +";

static int sequence_of(struct reader* r, int a, int b) {
	int all = reader_node(r, (struct syntax_node){.kind = NODE_EMPTY});
	all = reader_node(r, (struct syntax_node){.kind = NODE_SEQUENCE, .a = all, .b = a});
	return reader_node(r, (struct syntax_node){.kind = NODE_SEQUENCE, .a = all, .b = b});
}

static int repeat_of(struct reader* r, int node, int least, int most) {
	return reader_node(r, (struct syntax_node){.kind = NODE_REPEAT, .a = node, .least = least, .most = most});
}

/* As many as can come: the most, or fewer of which no other follows. */
int pattern_possessive(struct reader* r, int node, int least, int most) {
	if (r->failed || !is_definite(r, node))
		return reader_fail(r, indefinite);
	const int none = reader_node(r, (struct syntax_node){.kind = NODE_LOOK_AHEAD, .a = node, .most = 0});
	if (most == least)
		return repeat_of(r, node, least, most);
	const int fewer = sequence_of(r, repeat_of(r, node, least, most < 0 ? most : most - 1), none);
	if (most < 0)
		return fewer;
	return reader_node(
	    r, (struct syntax_node){.kind = NODE_EITHER, .a = fewer, .b = repeat_of(r, node, most, most)});
}

/* ---- back-references ------------------------------------------------------------------------------ */

bool pattern_refers(const char* expression, size_t size) {
	for (size_t i = 0; i + 1 < size; i++) {
		const char* at = expression + i;
		if (size - i > 4 && memcmp(at, "(?P=", 4) == 0)
			return true;
		if (*at != '\\')
			continue;
		if ((at[1] >= '1' && at[1] <= '9') || at[1] == 'k')
			return true;
		i++;
	}
	return false;
}

static int reference_to(struct reader* r, int group) {
	if (group < 1 || group > r->n_groups)
		return reader_fail(r, "a back-reference is supported only after the group that it refers to");
	return reader_node(r, (struct syntax_node){.kind = NODE_BACK, .b = group, .most = r->any_case});
}

static int named_group(const struct reader* r, const char* name, size_t size) {
	for (int i = 0; i < r->n_groups; i++)
		if (r->group[i].text && r->group[i].size == size && memcmp(r->group[i].text, name, size) == 0)
			return i + 1;
	return 0;
}

/* Up to the closing character. */
static int reference_by_name(struct reader* r, char close) {
	const char* name = r->text + r->at;
	while (reader_more(r) && !reader_at(r, close))
		r->at++;
	const size_t size = (size_t)(r->text + r->at - name);
	if (!reader_take(r, close))
		return reader_fail(r, "a back-reference is not closed");
	return reference_to(r, named_group(r, name, size));
}

int pattern_back(struct reader* r) {
	const char *at = r->text + r->at, after = r->size - r->at > 1 ? at[1] : 0;
	if (*at != '\\' || !((after >= '1' && after <= '9') || after == 'k'))
		return NOWHERE;
	r->at += 2;
	if (after == 'k')
		return reader_take(r, '<') ? reference_by_name(r, '>')
		                           : reader_fail(r, "this escape is not supported");
	int number = after - '0';
	while (reader_more(r) && r->text[r->at] >= '0' && r->text[r->at] <= '9' && number <= READER_GROUPS)
		number = 10 * number + (r->text[r->at++] - '0');
	return reference_to(r, number);
}

/* ---- groups ----------------------------------------------------------------------------------------- */

/* The alternatives up to the parenthesis that closes them. Flags that are set within hold until there. */
static int parse_inside(struct reader* r, const struct syntax* syntax) {
	const bool any_case = r->any_case, dot_all = r->dot_all;
	const int within = reader_alternatives(r, syntax, false);
	r->any_case = any_case;
	r->dot_all = dot_all;
	return reader_take(r, ')') ? within : reader_fail(r, "a group is not closed");
}

static int parse_look(struct reader* r, const struct syntax* syntax, enum syntax_kind kind) {
	const int must = reader_take(r, '=');
	reader_take(r, '!');
	const int within = parse_inside(r, syntax);
	return reader_node(r, (struct syntax_node){.kind = kind, .a = within, .most = must});
}

static int parse_capture(struct reader* r, const struct syntax* syntax, const char* name, size_t size) {
	if (!r->refers)
		return parse_inside(r, syntax);
	if (r->n_groups == READER_GROUPS)
		return reader_fail(r, "more than 64 groups beside a back-reference are not supported");
	r->group[r->n_groups] = (struct group_name){name, size};
	const int number = ++r->n_groups, within = parse_inside(r, syntax);
	return reader_node(r, (struct syntax_node){.kind = NODE_GROUP, .a = within, .b = number});
}

static int parse_named(struct reader* r, const struct syntax* syntax) {
	const char* name = r->text + r->at;
	while (reader_more(r) && !reader_at(r, '>'))
		r->at++;
	const size_t size = (size_t)(r->text + r->at - name);
	return reader_take(r, '>') ? parse_capture(r, syntax, name, size)
	                           : reader_fail(r, "a group is not closed");
}

/* Flags, for the rest of the group around them or for a group of their own: (?i), (?i-s:…). */
static int parse_flags(struct reader* r, const struct syntax* syntax) {
	const bool any_case = r->any_case, dot_all = r->dot_all;
	bool on = true;
	for (; reader_more(r) && !reader_at(r, ')') && !reader_at(r, ':'); r->at++) {
		const char flag = r->text[r->at];
		if (flag == 'i')
			r->any_case = on;
		else if (flag == 's')
			r->dot_all = on;
		else if (flag == '-')
			on = false;
		else if (flag != 'u' && flag != 'a')
			return reader_fail(
			    r, flag == 'm'   ? "the flag m is not supported: write (^|\\n) and ($|\\n)"
			       : flag == 'x' ? "the flag x is not supported: leave out white space and comments"
			                     : "this group is not supported: there are (...), (?:...), (?<name>...), "
			                       "(?=...), (?!...), (?<=...), (?<!...), (?>...), (?i) and (?s)");
	}
	if (reader_take(r, ')'))
		return reader_node(r, (struct syntax_node){.kind = NODE_EMPTY});
	if (!reader_take(r, ':'))
		return reader_fail(r, "a group is not closed");
	const int within = parse_inside(r, syntax);
	r->any_case = any_case;
	r->dot_all = dot_all;
	return within;
}

static int skip_comment(struct reader* r) {
	while (reader_more(r) && !reader_at(r, ')'))
		r->at++;
	if (!reader_take(r, ')'))
		return reader_fail(r, "a comment is not closed");
	return reader_node(r, (struct syntax_node){.kind = NODE_EMPTY});
}

static int parse_atomic(struct reader* r, const struct syntax* syntax) {
	const int within = parse_inside(r, syntax);
	return r->failed || is_definite(r, within) ? within : reader_fail(r, indefinite);
}

int pattern_group(struct reader* r, const struct syntax* syntax) {
	if (!reader_take(r, '?'))
		return parse_capture(r, syntax, NULL, 0);
	if (reader_take(r, ':'))
		return parse_inside(r, syntax);
	if (reader_take(r, '>'))
		return parse_atomic(r, syntax);
	if (reader_take(r, '#'))
		return skip_comment(r);
	if (reader_at(r, '=') || reader_at(r, '!'))
		return parse_look(r, syntax, NODE_LOOK_AHEAD);
	if (reader_take(r, '('))
		return reader_fail(r, "a conditional is not supported: write its two cases as alternatives");
	if (reader_at(r, 'R') || reader_at(r, '&') ||
	    (reader_more(r) && r->text[r->at] >= '0' && r->text[r->at] <= '9'))
		return reader_fail(r, "recursion is not supported: write the group as often as it may be nested");
	if (reader_take(r, 'P')) { /* Python's */
		if (reader_take(r, '='))
			return reference_by_name(r, ')');
		if (!reader_at(r, '<'))
			return reader_fail(r, "recursion is not supported: write the group as often as it may be nested");
	}
	if (!reader_take(r, '<'))
		return parse_flags(r, syntax);
	return reader_at(r, '=') || reader_at(r, '!') ? parse_look(r, syntax, NODE_LOOK_BEHIND)
	                                              : parse_named(r, syntax);
}
