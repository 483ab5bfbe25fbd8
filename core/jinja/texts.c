/* Operations on texts: methods of strings, and filters and tests that do the same to any value that
 * prints. */
#include <string.h>

#include <utf8proc.h>

#include "core/files/utf8.h"
#include "core/jinja/library.h"

/* ---- case --------------------------------------------------------------------------------- */

static bool is_cased(uint32_t code) {
	return utf8_category(code) & (UTF8_CATEGORY(LU) | UTF8_CATEGORY(LL) | UTF8_CATEGORY(LT));
}

/* Changes a letter; and a text: words begin with TITLE (in the filter: UPPER) letters, and the rest is
 * LOWER. */
enum casing { LOWER, UPPER, TITLE, FIRST_WORD, EACH_WORD, EACH_WORD_OF_FILTER };

static void write_case(struct builder* b, uint32_t code, enum casing to, bool foreign) {
	const utf8proc_int32_t c = (utf8proc_int32_t)code;
	if (code > 0x10FFFF) {
		builder_code(b, code, foreign);
		return;
	}
	if (code == 0xDF && to != LOWER) { /* ß has no capital of one character */
		builder_add(b, to == UPPER ? "SS" : "Ss", 2, foreign);
		return;
	}
	builder_code(b,
	             (uint32_t)(to == LOWER   ? utf8proc_tolower(c)
	                        : to == UPPER ? utf8proc_toupper(c)
	                                      : utf8proc_totitle(c)),
	             foreign);
}

static bool divides_title(uint32_t code) {
	return code_is_space(code) || (code && code < 0x80 && strchr("-({[<", (int)code));
}

static const struct string* with_case(struct machine* m, const struct string* s, enum casing to) {
	struct builder b = {.machine = m};
	uint32_t code;
	bool begins = true;
	for (size_t at = 0; at < s->size;) {
		const bool foreign = string_foreign_at(s, at);
		const enum casing first = to == EACH_WORD_OF_FILTER ? UPPER : TITLE;
		at += string_character(s, at, &code);
		write_case(&b, code, to < FIRST_WORD ? to : begins ? first : LOWER, foreign);
		begins = to == EACH_WORD ? !is_cased(code) : to == EACH_WORD_OF_FILTER && divides_title(code);
	}
	return string_markup(m, builder_end(&b), s->markup);
}

const struct string* string_lower(struct machine* m, const struct string* s) {
	return with_case(m, s, LOWER);
}

/* how: the casing */
static struct value change_case(struct machine* m, struct call* c) {
	return value_string(with_case(m, value_show(m, c->self), (enum casing)c->how));
}

/* The filter of that name, whose result is no markup. */
static struct value filter_title(struct machine* m, struct call* c) {
	return value_string(with_case(m, string_markup(m, value_show(m, c->self), false), EACH_WORD_OF_FILTER));
}

/* ---- what a string is made of ------------------------------------------------------------- */

enum {
	LETTERS =
	    UTF8_CATEGORY(LU) | UTF8_CATEGORY(LL) | UTF8_CATEGORY(LT) | UTF8_CATEGORY(LM) | UTF8_CATEGORY(LO),
	NUMBERS = UTF8_CATEGORY(ND) | UTF8_CATEGORY(NL) | UTF8_CATEGORY(NO)
};

/* how: the categories that all characters must have */
static struct value all_are(struct machine* m, struct call* c) {
	(void)m;
	const struct string* const s = c->self.string;
	uint32_t code;
	for (size_t at = 0; at < s->size;) {
		at += string_character(s, at, &code);
		if (!(utf8_category(code) & (uint32_t)c->how))
			return value_boolean(false);
	}
	return value_boolean(s->size > 0);
}

static struct value is_space(struct machine* m, struct call* c) {
	(void)m;
	const struct string* const s = c->self.string;
	return value_boolean(s->size > 0 && string_span(s, 0, true) == s->size);
}

static struct value is_ascii(struct machine* m, struct call* c) {
	(void)m;
	const struct string* const s = c->self.string;
	size_t at = 0;
	while (at < s->size && !(s->data[at] & 0x80))
		at++;
	return value_boolean(at == s->size);
}

/* True when some letter has a case, and changing case by `how` changes nothing. */
static struct value all_in_case(struct machine* m, struct call* c) {
	const struct string* const s = value_show(m, c->self);
	bool cased = false;
	uint32_t code;
	for (size_t at = 0; at < s->size;) {
		at += string_character(s, at, &code);
		cased |= is_cased(code);
	}
	return value_boolean(cased && string_equal(m, s, with_case(m, s, (enum casing)c->how)));
}

/* ---- ends --------------------------------------------------------------------------------- */

/* how: which ends are meant */
enum { LEFT = 1, RIGHT = 2 };

static struct value strip_ends(struct machine* m, struct call* c) {
	const struct string* const set = argument_string(m, argument_or_none(c->given[0]), c->name);
	return value_string(string_strip(m, value_show(m, c->self), set, c->how & LEFT, c->how & RIGHT));
}

/* Bytes [*start, *end) of the characters named by the arguments start and end. */
static void byte_range(struct machine* m, const struct string* s, struct value start, struct value end,
                       size_t range[2]) {
	const int64_t n = string_length(m, s);
	const int64_t from = argument_integer(m, argument_or_none(start), "start", 0);
	const int64_t to = argument_integer(m, argument_or_none(end), "end", n);
	range[0] = from > n ? SIZE_MAX : string_offset(m, s, clamp_index(from, n));
	range[1] = string_offset(m, s, clamp_index(to, n));
}

static bool has_end(struct machine* m, const struct call* c, struct value what, const size_t range[2]) {
	const struct string* const s = c->self.string;
	const struct string* const w = argument_string(m, what, c->name);
	if (range[0] > range[1] || w->size > range[1] - range[0])
		return false;
	machine_charge(m, w->size);
	return w->size == 0 ||
	       memcmp(s->data + (c->how == LEFT ? range[0] : range[1] - w->size), w->data, w->size) == 0;
}

static struct value test_end(struct machine* m, struct call* c) {
	size_t range[2] = {0, c->self.string->size};
	const struct value what = c->given[0];
	if (c->given[1].kind != ABSENT || c->given[2].kind != ABSENT)
		byte_range(m, c->self.string, c->given[1], c->given[2], range);
	if (what.kind != TUPLE)
		return value_boolean(has_end(m, c, what, range));
	for (int i = 0; i < what.list->n; i++)
		if (has_end(m, c, what.list->item[i], range))
			return value_boolean(true);
	return value_boolean(false);
}

static struct value remove_end(struct machine* m, struct call* c) {
	const size_t n = c->self.string->size, range[2] = {0, n};
	const struct string* const w = argument_string(m, c->given[0], c->name);
	if (!has_end(m, c, c->given[0], range))
		return c->self;
	return value_string(c->how == LEFT ? string_part(m, c->self.string, w->size, n)
	                                   : string_part(m, c->self.string, 0, n - w->size));
}

/* ---- finding ------------------------------------------------------------------------------ */

/* how: the last one; fails if there is none */
enum { LAST = 1, FAILING = 2 };

/* The character where `sub` lies first or last, or -1. */
static struct value find_text(struct machine* m, struct call* c) {
	size_t range[2];
	const struct string* const sub = argument_string(m, c->given[0], c->name);
	byte_range(m, c->self.string, c->given[1], c->given[2], range);
	const size_t at =
	    (c->how & LAST ? string_find_last : string_find)(m, c->self.string, sub, range[0], range[1]);
	if (at == SIZE_MAX && c->how & FAILING)
		machine_fail(m, "substring not found");
	return value_integer(at == SIZE_MAX ? -1 : string_length(m, string_part(m, c->self.string, 0, at)));
}

static struct value count_matches(struct machine* m, struct call* c) {
	size_t range[2];
	int64_t n = 0;
	const struct string* const sub = argument_string(m, c->given[0], c->name);
	byte_range(m, c->self.string, c->given[1], c->given[2], range);
	if (range[0] > range[1])
		return value_integer(0);
	if (sub->size == 0)
		return value_integer(string_length(m, string_part(m, c->self.string, range[0], range[1])) + 1);
	for (size_t at = range[0]; (at = string_find(m, c->self.string, sub, at, range[1])) != SIZE_MAX;
	     at += sub->size)
		n++;
	return value_integer(n);
}

static struct value replace_text(struct machine* m, struct call* c) {
	const struct string *const s = c->self.string, *const from = argument_string(m, c->given[0], c->name),
	                           *const to = argument_string(m, c->given[1], c->name);
	int64_t left = argument_integer(m, argument_or_none(c->given[2]), c->name, -1);
	struct builder b = {.machine = m};
	size_t kept = 0;
	uint32_t code;
	for (size_t at = 0; left != 0; left--) {
		at = string_find(m, s, from, at, s->size);
		if (at == SIZE_MAX)
			break;
		builder_part(&b, s, kept, at);
		builder_string(&b, to);
		kept = at += from->size;
		if (from->size == 0) { /* before every character, and at the end */
			if (at == s->size)
				break;
			at += string_character(s, at, &code);
		}
	}
	builder_part(&b, s, kept, s->size);
	return value_string(string_markup(m, builder_end(&b), s->markup));
}

/* The filter: all three are shown first. */
static struct value filter_replace(struct machine* m, struct call* c) {
	c->self = value_string(string_markup(m, value_show(m, c->self), false));
	c->given[0] = value_string(value_show(m, c->given[0]));
	c->given[1] = value_string(value_show(m, c->given[1]));
	return replace_text(m, c);
}

/* ---- cutting ------------------------------------------------------------------------------ */

static void add_part(struct machine* m, struct list* list, const struct string* s, size_t start, size_t end) {
	list_add(m, list, value_string(string_part(m, s, start, end)));
}

static void reverse_list(struct list* list) {
	for (int i = 0, k = list->n - 1; i < k; i++, k--) {
		const struct value v = list->item[i];
		list->item[i] = list->item[k];
		list->item[k] = v;
	}
}

/* At stretches of white space. */
static void split_words(struct machine* m, const struct string* s, int64_t most, struct list* list) {
	for (size_t at = string_span(s, 0, true); at < s->size;) {
		if (most-- == 0) {
			add_part(m, list, s, at, s->size);
			return;
		}
		const size_t end = string_span(s, at, false);
		add_part(m, list, s, at, end);
		at = string_span(s, end, true);
	}
}

/* Splits at most so many times, from the right or the left. */
static void split_at(struct machine* m, const struct string* s, const struct string* by, int64_t most,
                     bool right, struct list* list) {
	size_t start = 0, end = s->size;
	for (; most != 0; most--) {
		const size_t at = (right ? string_find_last : string_find)(m, s, by, start, end);
		if (at == SIZE_MAX)
			break;
		add_part(m, list, s, right ? at + by->size : start, right ? end : at);
		start = right ? 0 : at + by->size;
		end = right ? at : end;
	}
	add_part(m, list, s, start, end);
	if (right)
		reverse_list(list);
}

static struct value split_text(struct machine* m, struct call* c) {
	struct value out = value_list(m, LIST);
	const struct string* const by = argument_string(m, argument_or_none(c->given[0]), c->name);
	const int64_t most = argument_integer(m, c->given[1], c->name, -1);
	if (by && by->size == 0)
		machine_fail(m, "empty separator");
	if (!by && c->how == RIGHT && most >= 0)
		machine_fail(m, "rsplit at white space with a limit is not supported");
	if (by)
		split_at(m, c->self.string, by, most, c->how == RIGHT, out.list);
	else
		split_words(m, c->self.string, most, out.list);
	return out;
}

static bool ends_line(uint32_t code) {
	return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
	       code == 0x2028 || code == 0x2029;
}

/* The lines, with their line breaks if `keep`. */
static struct list* string_lines(struct machine* m, const struct string* s, bool keep) {
	struct list* const lines = value_list(m, LIST).list;
	size_t start = 0;
	uint32_t code;
	for (size_t at = 0, length; at < s->size; at += length) {
		length = string_character(s, at, &code);
		if (!ends_line(code))
			continue;
		length += code == '\r' && at + 1 < s->size && s->data[at + 1] == '\n';
		add_part(m, lines, s, start, keep ? at + length : at);
		start = at + length;
	}
	if (start < s->size)
		add_part(m, lines, s, start, s->size);
	return lines;
}

static struct value split_lines(struct machine* m, struct call* c) {
	return (struct value){.kind = LIST, .list = string_lines(m, c->self.string, value_truth(c->given[0]))};
}

static struct value partition_text(struct machine* m, struct call* c) {
	const bool right = c->how == RIGHT;
	struct value out = value_list(m, TUPLE);
	const struct string* const s = c->self.string;
	const struct string* const w = argument_string(m, c->given[0], c->name);
	if (w->size == 0)
		machine_fail(m, "empty separator");
	size_t at = (right ? string_find_last : string_find)(m, s, w, 0, s->size);
	const size_t width = at == SIZE_MAX ? 0 : w->size;
	at = at == SIZE_MAX ? (right ? 0 : s->size) : at;
	add_part(m, out.list, s, 0, at);
	add_part(m, out.list, s, at, at + width);
	add_part(m, out.list, s, at + width, s->size);
	return out;
}

static struct value join_texts(struct machine* m, struct call* c) {
	struct builder b = {.machine = m};
	const struct list* const items = value_items(m, c->given[0]);
	for (int i = 0; i < items->n; i++) {
		if (items->item[i].kind != STRING)
			machine_fail(m, "sequence item %d: expected str instance, %s found", i,
			             value_type(items->item[i]));
		if (i)
			builder_string(&b, c->self.string);
		builder_string(&b, items->item[i].string);
	}
	return value_string(string_markup(m, builder_end(&b), c->self.string->markup));
}

static struct value format_text(struct machine* m, struct call* c) {
	return format_braces(m, c->self.string, c->all);
}

/* ---- shaping ------------------------------------------------------------------------------ */

static struct value filter_indent(struct machine* m, struct call* c) {
	const struct value width = c->given[0].kind == ABSENT ? value_integer(4) : c->given[0];
	const struct string* const step = argument_indent(m, width, "indent");
	const struct string* const text = argument_string(m, c->self, "indent");
	struct builder b = {.machine = m};
	struct builder ended = {.machine = m};
	builder_string(&ended, text);
	builder_words(&ended, "\n"); /* so that a line break at the end is kept */
	const struct list* const lines = string_lines(m, builder_end(&ended), false);
	for (int i = 0; i < lines->n; i++) {
		const struct string* const line = lines->item[i].string;
		if (i)
			builder_words(&b, "\n");
		if (i ? line->size || value_truth(c->given[2]) : value_truth(c->given[1]))
			builder_string(&b, step);
		builder_string(&b, line);
	}
	return value_string(builder_end(&b));
}

/* Methods belong to strings. Filters take any value, which is printed first. */
const struct routine text_routines[] = {
    {"lower", FILTER | OF(STRING), change_case, LOWER, 0, {NULL}},
    {"casefold", OF(STRING), change_case, LOWER, 0, {NULL}},
    {"upper", FILTER | OF(STRING), change_case, UPPER, 0, {NULL}},
    {"title", OF(STRING), change_case, EACH_WORD, 0, {NULL}},
    {"title", FILTER, filter_title, 0, 0, {NULL}},
    {"capitalize", FILTER | OF(STRING), change_case, FIRST_WORD, 0, {NULL}},
    {"upper", TEST, all_in_case, UPPER, 0, {NULL}},
    {"lower", TEST, all_in_case, LOWER, 0, {NULL}},
    {"isupper", OF(STRING), all_in_case, UPPER, 0, {NULL}},
    {"islower", OF(STRING), all_in_case, LOWER, 0, {NULL}},
    {"isdigit isdecimal", OF(STRING), all_are, UTF8_CATEGORY(ND), 0, {NULL}},
    {"isnumeric", OF(STRING), all_are, NUMBERS, 0, {NULL}},
    {"isalpha", OF(STRING), all_are, LETTERS, 0, {NULL}},
    {"isalnum", OF(STRING), all_are, LETTERS | NUMBERS, 0, {NULL}},
    {"isspace", OF(STRING), is_space, 0, 0, {NULL}},
    {"isascii", OF(STRING), is_ascii, 0, 0, {NULL}},
    {"trim", FILTER, strip_ends, LEFT | RIGHT, 0, {"chars"}},
    {"strip", OF(STRING), strip_ends, LEFT | RIGHT, 0, {"chars"}},
    {"lstrip", OF(STRING), strip_ends, LEFT, 0, {"chars"}},
    {"rstrip", OF(STRING), strip_ends, RIGHT, 0, {"chars"}},
    {"startswith", OF(STRING), test_end, LEFT, 1, {"prefix", "start", "end"}},
    {"endswith", OF(STRING), test_end, RIGHT, 1, {"prefix", "start", "end"}},
    {"removeprefix", OF(STRING), remove_end, LEFT, 1, {"affix"}},
    {"removesuffix", OF(STRING), remove_end, RIGHT, 1, {"affix"}},
    {"find", OF(STRING), find_text, 0, 1, {"sub", "start", "end"}},
    {"rfind", OF(STRING), find_text, LAST, 1, {"sub", "start", "end"}},
    {"index", OF(STRING), find_text, FAILING, 1, {"sub", "start", "end"}},
    {"rindex", OF(STRING), find_text, LAST | FAILING, 1, {"sub", "start", "end"}},
    {"count", OF(STRING), count_matches, 0, 1, {"sub", "start", "end"}},
    {"replace", OF(STRING), replace_text, 0, 2, {"old", "new", "count"}},
    {"replace", FILTER, filter_replace, 0, 2, {"old", "new", "count"}},
    {"split", OF(STRING), split_text, LEFT, 0, {"sep", "maxsplit"}},
    {"rsplit", OF(STRING), split_text, RIGHT, 0, {"sep", "maxsplit"}},
    {"splitlines", OF(STRING), split_lines, 0, 0, {"keepends"}},
    {"partition", OF(STRING), partition_text, LEFT, 1, {"sep"}},
    {"rpartition", OF(STRING), partition_text, RIGHT, 1, {"sep"}},
    {"join", OF(STRING), join_texts, 0, 1, {"iterable"}},
    {"format", OF(STRING), format_text, 0, AS_THEY_CAME, {NULL}},
    {"indent", FILTER, filter_indent, 0, 0, {"width", "first", "blank"}},
    {.name = NULL}};
