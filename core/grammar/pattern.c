/* Compiles regular expressions into a program or a language, by recursive descent over an arena of nodes,
 * with bounded depth. */
#include <stdlib.h>
#include <string.h>

#include "core/files/utf8.h"
#include "core/grammar/expression.h"
#include "core/grammar/language.h"
#include "core/grammar/letter_case.h"
#include "core/grammar/pattern_group.h"
#include "core/grammar/property.h"

static void report_error(const struct reader* r, const char* why) {
	error_set(r->error, "the expression \"%.*s\": %s at byte %zu", (int)(r->size < 200 ? r->size : 200),
	          r->text, why, r->at);
}

/* ---- classes -------------------------------------------------------------------------------- */

/* \p{…}, and \P{…}. */
static bool take_property(struct reader* r) {
	if (r->at + 1 >= r->size || r->text[r->at] != '\\' || (r->text[r->at + 1] | 0x20) != 'p')
		return false;
	const bool negated = r->text[r->at + 1] == 'P';
	char name[48] = "";
	size_t n = 0;
	r->at += 2;
	if (!reader_take(r, '{'))
		return reader_fail(r, "a property's name is missing");
	while (reader_more(r) && !reader_at(r, '}') && n + 1 < sizeof name)
		name[n++] = r->text[r->at++];
	if (!reader_take(r, '}') || !property_ranges(r, name, negated))
		return reader_fail(r, "this property of characters is not known");
	return true;
}

/* Reads \d, \w, \s, their complements, and \p{…}. False when none of them comes next. */
static bool take_named(struct reader* r) {
	if (take_property(r))
		return true;
	static const struct range digit[] = {{'0', '9'}};
	static const struct range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
	static const struct range space[] = {
	    {9, 13},          {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
	    {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
	if (!reader_at(r, '\\') || r->at + 1 >= r->size || !r->text[r->at + 1] ||
	    !strchr("dDwWsS", r->text[r->at + 1]))
		return false;
	const char letter = r->text[r->at + 1], lower = (char)(letter | 0x20);
	const struct range* of = lower == 'd' ? digit : lower == 'w' ? word : space;
	r->at += 2;
	const int n = lower == 'd' ? 1 : lower == 'w' ? 4 : 10, from = r->n_ranges;
	for (int i = 0; i < n; i++)
		reader_range(r, of[i].low, of[i].high);
	if (letter != lower && !r->failed)
		reader_negate(r, from);
	return true;
}

/* POSIX's classes of ASCII characters, within brackets: [[:alpha:]_]. */
static bool take_posix(struct reader* r) {
	static const char* const class[][2] = {{"alnum", "09AZaz"},
	                                       {"alpha", "AZaz"},
	                                       {"ascii", "\1\177"},
	                                       {"blank", "\t\t  "},
	                                       {"cntrl", "\1\37\177\177"},
	                                       {"digit", "09"},
	                                       {"graph", "!~"},
	                                       {"lower", "az"},
	                                       {"print", " ~"},
	                                       {"punct", "!/:@[`{~"},
	                                       {"space", "\t\r  "},
	                                       {"upper", "AZ"},
	                                       {"word", "09AZ__az"},
	                                       {"xdigit", "09AFaf"}};
	const char* at = r->text + r->at;
	const size_t left = r->size - r->at;
	if (left < 4 || at[0] != '[' || at[1] != ':')
		return false;
	const bool negated = at[2] == '^';
	const char* name = at + 2 + negated;
	const int from = r->n_ranges;
	for (size_t i = 0; i < sizeof class / sizeof *class; i++) {
		const size_t n = strlen(class[i][0]);
		if (left < 4 + n + negated || memcmp(name, class[i][0], n) != 0 || memcmp(name + n, ":]", 2) != 0)
			continue;
		r->at += 4 + n + negated;
		const bool letters =
		    r->any_case && (strcmp(class[i][0], "lower") == 0 || strcmp(class[i][0], "upper") == 0);
		for (const char* of = letters ? "AZaz" : class[i][1]; *of; of += 2)
			reader_range(r, *of == 1 ? 0 : (uint8_t)of[0], (uint8_t)of[1]);
		if (negated && !r->failed)
			reader_negate(r, from);
		return true;
	}
	return false;
}

static bool take_in_class(struct reader* r) { return take_posix(r) || take_named(r); }

static const struct dialect outside = {
    .letters = "ntrfvae0", .means = "\n\t\r\f\v\a\33\0", .hexadecimal = "xu", .named = take_named};
static const struct dialect in_class = {.letters = "bntrfvae0",
                                        .means = "\b\n\t\r\f\v\a\33\0",
                                        .hexadecimal = "xu",
                                        .named = take_in_class,
                                        .range = letter_range};

/* ---- expressions ---------------------------------------------------------------------------- */

static const struct syntax syntax;

static bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

/* Anchors of other dialects, and back-references. NOWHERE: none of them comes next. */
static int take_other(struct reader* r) {
	const char after = reader_at(r, '\\') && r->at + 1 < r->size ? r->text[r->at + 1] : 0;
	if (after == 'h' || after == 'H')
		return reader_fail(
		    r, "\\h is white space in some dialects and a hexadecimal digit in others: write [ \\t] or "
		       "[0-9a-fA-F]");
	if (after != 'A' && after != 'Z' && after != 'z')
		return after ? pattern_back(r) : NOWHERE;
	r->at += 2;
	return reader_node(r, (struct syntax_node){.kind = after == 'A' ? NODE_START : NODE_END});
}

static int parse_atom(struct reader* r) {
	const int from = r->n_ranges;
	if (reader_take(r, '('))
		return pattern_group(r, &syntax);
	if (reader_take(r, '['))
		return reader_class(r, &in_class);
	if (reader_take(r, '^'))
		return reader_node(r, (struct syntax_node){.kind = NODE_START});
	if (reader_take(r, '$'))
		return reader_node(r, (struct syntax_node){.kind = NODE_END});
	if (reader_take(r, '.')) {
		if (!r->dot_all) {
			reader_range(r, '\n', '\n');
			reader_range(r, '\r', '\r');
			reader_range(r, 0x2028, 0x2029);
		}
		if (!r->failed)
			reader_negate(r, from);
		return reader_ranges(r, NODE_CLASS, from);
	}
	if (take_named(r))
		return reader_ranges(r, NODE_CLASS, from);
	if (reader_at(r, '\\') && r->at + 1 < r->size && (r->text[r->at + 1] | 0x20) == 'b') {
		r->at += 2;
		return reader_node(r,
		                   (struct syntax_node){.kind = NODE_WORD_EDGE, .most = r->text[r->at - 1] == 'b'});
	}
	if (reader_at(r, '\\') && r->at + 2 < r->size && r->text[r->at + 1] == 'c' &&
	    is_letter(r->text[r->at + 2])) {
		const uint32_t control = (uint32_t)r->text[r->at + 2] & 31;
		r->at += 3;
		reader_range(r, control, control);
		return reader_ranges(r, NODE_CLASS, from);
	}
	if (reader_at(r, '*') || reader_at(r, '+') || reader_at(r, '?') || (reader_at(r, '{') && r->at == 0))
		return reader_fail(r, "nothing to repeat");
	const int other = take_other(r);
	if (other >= 0)
		return other;
	const uint32_t code = reader_character(r, &outside);
	letter_range(r, code, code);
	return reader_ranges(r, NODE_CLASS, from);
}

static const struct syntax syntax = {
    .atom = parse_atom, .lazy = true, .possessive = pattern_possessive, .ends = "|)"};

enum { MAX_WORK = 1 << 20 };

/* ---- anchors -------------------------------------------------------------------------------- */

/* Any text, as long as one likes. */
static int32_t emit_anything(struct reader* r, int32_t next) {
	const int32_t loop = emit_loop(r->grammar, next);
	loop_close(r->grammar, loop, r->characters(r->grammar, (const uint32_t[]){0, LAST_CODE + 1}, 2, loop));
	return loop;
}

/* An alternative: a chain of sequences. The first part may be `^`, the last `$`. */
static int32_t emit_alternative(struct reader* r, int index, bool whole, int32_t next) {
	bool ends = whole, starts = whole, last = true;
	for (; r->node[index].kind == NODE_SEQUENCE; index = r->node[index].a) {
		const int part = r->node[index].b;
		const enum syntax_kind kind = r->node[part].kind;
		const bool first = r->node[r->node[index].a].kind == NODE_EMPTY;
		if (kind == NODE_END && last) {
			ends = true;
			continue;
		}
		if (last && !ends)
			next = emit_anything(r, next);
		last = false;
		if (kind == NODE_START && first) {
			starts = true;
			continue;
		}
		if (expression_anchors(r, part))
			return (int32_t)reader_fail(r, "^ and $ are supported only where a text begins and ends");
		next = reader_emit(r, part, next);
	}
	if (last && !ends)
		next = emit_anything(r, next);
	return starts ? next : emit_anything(r, next);
}

static int32_t emit_alternatives(struct reader* r, int index, bool whole, int32_t next) {
	int32_t all = NOWHERE;
	for (; r->node[index].kind == NODE_EITHER && !r->failed; index = r->node[index].a)
		all = emit_split(r->grammar, emit_alternative(r, r->node[index].b, whole, next), all);
	return emit_split(r->grammar, emit_alternative(r, index, whole, next), all);
}

static bool parse_pattern(struct reader* r, int* root) {
	r->refers = pattern_refers(r->text, r->size);
	*root = reader_alternatives(r, &syntax, false);
	if (!r->failed && r->at < r->size)
		reader_fail(r, "a closing parenthesis has no opening one");
	return !r->failed;
}

int32_t pattern_emit(struct grammar* grammar, const char* expression, size_t size, bool whole,
                     character_emitter* characters, int32_t next, struct error* error) {
	struct reader reader = {.text = expression,
	                        .size = size,
	                        .error = error,
	                        .report_error = report_error,
	                        .grammar = grammar,
	                        .characters = characters,
	                        .most_work = MAX_WORK};
	struct reader* const r = &reader;
	int32_t start = NOWHERE;
	int root;
	if (!parse_pattern(r, &root))
		;
	else if (expression_looks(r, root)) {
		struct language* language = expression_language(r, root, whole);
		if (language)
			start = language_emit(grammar, language, characters, NULL, -1, next);
		language_free(language);
	} else
		start = emit_alternatives(r, root, whole, next);
	if (r->failed)
		start = NOWHERE;
	else if (start == NOWHERE)
		reader_fail(r, grammar->failed ? "this part makes the grammar too large" : "it matches nothing");
	reader_close(r);
	return start;
}

struct language* language_of_pattern(const char* expression, size_t size, bool whole, struct error* error) {
	struct reader reader = {.text = expression, .size = size, .error = error, .report_error = report_error};
	int root;
	struct language* language =
	    parse_pattern(&reader, &root) ? expression_language(&reader, root, whole) : NULL;
	reader_close(&reader);
	return language;
}
