/* Methods of strings, dicts, lists and loops. Those that change a value in place have no function: the
 * sandbox of chat templates forbids them. */
#include <string.h>

#include <utf8proc.h>

#include "core/jinja/library.h"

static struct value marked_as(struct machine* m, const struct string* s, const struct string* like) {
	if (s->markup == like->markup)
		return value_string(s);
	struct string copy = *s;
	copy.markup = like->markup;
	return value_string(machine_new(m, &copy, sizeof copy));
}

/* ---- case --------------------------------------------------------------------------------- */

static bool is_cased(uint32_t code) {
	if (code > 0x10FFFF)
		return false;
	const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
	return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

enum letter { LOWER, UPPER, TITLE, SWAP };

static void write_case(struct builder* b, uint32_t code, enum letter to, bool foreign) {
	const utf8proc_int32_t c = (utf8proc_int32_t)code;
	if (code > 0x10FFFF) {
		builder_code(b, code, foreign);
		return;
	}
	if (to == SWAP)
		to = utf8proc_tolower(c) != c ? LOWER : UPPER;
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

static const struct string* with_case(struct machine* m, const struct string* s, enum letter first,
                                      enum letter rest, bool words) {
	struct builder b = {.machine = m};
	uint32_t code;
	bool begins = true;
	for (size_t at = 0; at < s->size;) {
		const bool foreign = string_foreign_at(s, at);
		at += string_character(s, at, &code);
		write_case(&b, code, begins ? first : rest, foreign);
		begins = words && !is_cased(code);
	}
	return marked_as(m, builder_end(&b), s).string;
}

const struct string* string_lower(struct machine* m, const struct string* s) {
	return with_case(m, s, LOWER, LOWER, false);
}
const struct string* string_upper(struct machine* m, const struct string* s) {
	return with_case(m, s, UPPER, UPPER, false);
}

static void take_none(struct machine* m, const struct arguments* a, const struct method_of* self) {
	static const char* const name[] = {NULL};
	arguments_take(m, a, self->name, name, 0, NULL);
}

/* how: the case of the first letter and of the rest */
enum { FIRST_OF_WORDS = 16 };
#define CASES(first, rest) ((first) << 2 | (rest))
static struct value change_case(struct machine* m, struct value v, const struct arguments* a,
                                const struct method_of* self) {
	take_none(m, a, self);
	const int how = self->how & (FIRST_OF_WORDS - 1);
	return value_string(
	    with_case(m, v.string, (enum letter)(how >> 2), (enum letter)(how & 3), self->how & FIRST_OF_WORDS));
}

/* ---- what a string is made of ------------------------------------------------------------- */

enum { DECIMAL = 1, NUMERIC = 2, LETTER = 4, SPACE = 8, ASCII = 16 };

static int classes_of(uint32_t code) {
	int is = (code < 0x80 ? ASCII : 0) | (code_is_space(code) ? SPACE : 0);
	if (code > 0x10FFFF)
		return is;
	switch (utf8proc_category((utf8proc_int32_t)code)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
		return is | LETTER;
	case UTF8PROC_CATEGORY_ND:
		return is | DECIMAL | NUMERIC;
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_NO:
		return is | NUMERIC;
	default:
		return is;
	}
}

/* how: of which classes all characters are */
static struct value all_are(struct machine* m, struct value v, const struct arguments* a,
                            const struct method_of* self) {
	take_none(m, a, self);
	uint32_t code;
	for (size_t at = 0; at < v.string->size;) {
		at += string_character(v.string, at, &code);
		if (!(classes_of(code) & self->how))
			return value_boolean(false);
	}
	return value_boolean(v.string->size > 0 || self->how == ASCII);
}

/* Some letter has a case, and changing to the case `how` changes nothing. */
static struct value all_in_case(struct machine* m, struct value v, const struct arguments* a,
                                const struct method_of* self) {
	take_none(m, a, self);
	const enum letter to = (enum letter)self->how;
	const struct string* const changed = with_case(m, v.string, to, to, false);
	bool cased = false;
	uint32_t code;
	for (size_t at = 0; at < v.string->size;) {
		at += string_character(v.string, at, &code);
		cased |= is_cased(code);
	}
	return value_boolean(cased && string_equal(m, v.string, changed));
}

/* ---- ends --------------------------------------------------------------------------------- */

/* how: which ends are meant */
enum { LEFT = 1, RIGHT = 2 };

static struct value strip(struct machine* m, struct value v, const struct arguments* a,
                          const struct method_of* self) {
	static const char* const name[] = {"chars", NULL};
	struct value set;
	arguments_take(m, a, self->name, name, 0, &set);
	if (set.kind == NONE)
		set.kind = ABSENT;
	return value_string(string_strip(m, v.string, argument_string(m, set, self->name, NULL), self->how & LEFT,
	                                 self->how & RIGHT));
}

/* Bytes [*start, *end) of the characters that the arguments start and end name. */
static void byte_range(struct machine* m, const struct string* s, struct value start, struct value end,
                       size_t range[2]) {
	const int64_t n = string_length(m, s);
	start.kind = start.kind == NONE ? ABSENT : start.kind;
	end.kind = end.kind == NONE ? ABSENT : end.kind;
	const int64_t from = argument_integer(m, start, "start", 0);
	range[0] = from > n ? SIZE_MAX : string_offset(m, s, clamp_index(from, n));
	range[1] = string_offset(m, s, clamp_index(argument_integer(m, end, "end", n), n));
}

static bool has_end(struct machine* m, const struct string* s, struct value what, const size_t range[2],
                    const struct method_of* self) {
	const bool at_start = self->how == LEFT;
	if (what.kind == TUPLE) {
		for (int i = 0; i < what.list->n; i++)
			if (has_end(m, s, what.list->item[i], range, self))
				return true;
		return false;
	}
	const struct string* const w = argument_string(m, what, self->name, NULL);
	if (range[0] > range[1] || w->size > range[1] - range[0])
		return false;
	machine_charge(m, w->size);
	return w->size == 0 ||
	       memcmp(s->data + (at_start ? range[0] : range[1] - w->size), w->data, w->size) == 0;
}

static struct value test_end(struct machine* m, struct value v, const struct arguments* a,
                             const struct method_of* self) {
	static const char* const name[] = {"prefix", "start", "end", NULL};
	struct value given[3];
	size_t range[2] = {0, v.string->size};
	arguments_take(m, a, self->name, name, 1, given);
	if (given[1].kind != ABSENT || given[2].kind != ABSENT)
		byte_range(m, v.string, given[1], given[2], range);
	if (given[0].kind == TUPLE && given[0].list->n && given[0].list->item[0].kind == TUPLE)
		machine_fail(m, "startswith and endswith take a string or a tuple of strings");
	return value_boolean(has_end(m, v.string, given[0], range, self));
}

static struct value remove_end(struct machine* m, struct value v, const struct arguments* a,
                               const struct method_of* self) {
	static const char* const name[] = {"affix", NULL};
	struct value what;
	const size_t n = v.string->size, range[2] = {0, n};
	arguments_take(m, a, self->name, name, 1, &what);
	const struct string* const w = argument_string(m, what, self->name, NULL);
	if (!has_end(m, v.string, what, range, self))
		return v;
	return value_string(self->how == LEFT ? string_part(m, v.string, w->size, n)
	                                      : string_part(m, v.string, 0, n - w->size));
}

/* ---- width -------------------------------------------------------------------------------- */

/* how: where the room goes */
static struct value justify(struct machine* m, struct value v, const struct arguments* a,
                            const struct method_of* self) {
	static const char* const name[] = {"width", "fillchar", NULL};
	struct value given[2];
	arguments_take(m, a, self->name, name, 1, given);
	const struct string* const fill = argument_string(m, given[1], self->name, string_of(m, " "));
	const int64_t width = argument_integer(m, given[0], self->name, 0);
	const int64_t length = string_length(m, v.string), room = width > length ? width - length : 0;
	const int64_t before = self->how == (LEFT | RIGHT) ? room / 2 + (room & width & 1)
	                       : self->how == LEFT         ? room
	                                                   : 0;
	struct builder b = {.machine = m};
	if (string_length(m, fill) != 1)
		machine_fail(m, "The fill character must be exactly one character long");
	for (int64_t i = 0; i < before; i++)
		builder_string(&b, fill);
	builder_string(&b, v.string);
	for (int64_t i = before; i < room; i++)
		builder_string(&b, fill);
	return marked_as(m, builder_end(&b), v.string);
}

static struct value method_zfill(struct machine* m, struct value v, const struct arguments* a,
                                 const struct method_of* self) {
	static const char* const name[] = {"width", NULL};
	struct value width;
	arguments_take(m, a, self->name, name, 1, &width);
	const struct string* const s = v.string;
	const size_t sign = s->size && (s->data[0] == '-' || s->data[0] == '+');
	int64_t room = argument_integer(m, width, self->name, 0) - string_length(m, s);
	struct builder b = {.machine = m};
	builder_part(&b, s, 0, sign);
	for (; room > 0; room--)
		builder_words(&b, "0");
	builder_part(&b, s, sign, s->size);
	return marked_as(m, builder_end(&b), s);
}

/* ---- finding ------------------------------------------------------------------------------ */

static int64_t characters_before(struct machine* m, const struct string* s, size_t at) {
	struct string part = *s;
	part.size = at;
	return string_length(m, &part);
}

/* how: the last; failing where there is none */
enum { LAST = 1, FAILING = 2 };

/* The character where `sub` lies first or last, or -1. */
static struct value find(struct machine* m, struct value v, const struct arguments* a,
                         const struct method_of* self) {
	static const char* const name[] = {"sub", "start", "end", NULL};
	struct value given[3];
	size_t range[2];
	arguments_take(m, a, self->name, name, 1, given);
	const struct string* const sub = argument_string(m, given[0], self->name, NULL);
	byte_range(m, v.string, given[1], given[2], range);
	const size_t at =
	    (self->how & LAST ? string_find_last : string_find)(m, v.string, sub, range[0], range[1]);
	if (at == SIZE_MAX && self->how & FAILING)
		machine_fail(m, "substring not found");
	return value_integer(at == SIZE_MAX ? -1 : characters_before(m, v.string, at));
}

static struct value method_count(struct machine* m, struct value v, const struct arguments* a,
                                 const struct method_of* self) {
	static const char* const name[] = {"sub", "start", "end", NULL};
	struct value given[3];
	size_t range[2];
	int64_t n = 0;
	arguments_take(m, a, self->name, name, 1, given);
	const struct string* const sub = argument_string(m, given[0], self->name, NULL);
	byte_range(m, v.string, given[1], given[2], range);
	if (range[0] > range[1])
		return value_integer(0);
	if (sub->size == 0)
		return value_integer(characters_before(m, v.string, range[1]) -
		                     characters_before(m, v.string, range[0]) + 1);
	for (size_t at = range[0]; (at = string_find(m, v.string, sub, at, range[1])) != SIZE_MAX;
	     at += sub->size)
		n++;
	return value_integer(n);
}

static struct value method_replace(struct machine* m, struct value v, const struct arguments* a,
                                   const struct method_of* self) {
	static const char* const name[] = {"old", "new", "count", NULL};
	struct value given[3];
	arguments_take(m, a, self->name, name, 2, given);
	if (given[2].kind == NONE)
		given[2].kind = ABSENT;
	const struct string *const s = v.string, *const from = argument_string(m, given[0], self->name, NULL),
	                           *const to = argument_string(m, given[1], self->name, NULL);
	int64_t left = argument_integer(m, given[2], self->name, -1);
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
	return marked_as(m, builder_end(&b), s);
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

static size_t skip_class(const struct string* s, size_t at, bool space) {
	uint32_t code;
	while (at < s->size) {
		const size_t length = string_character(s, at, &code);
		if (code_is_space(code) != space)
			break;
		at += length;
	}
	return at;
}

/* At stretches of white space. */
static void split_words(struct machine* m, const struct string* s, int64_t most, struct list* list) {
	for (size_t at = skip_class(s, 0, true); at < s->size;) {
		if (most-- == 0) {
			add_part(m, list, s, at, s->size);
			return;
		}
		const size_t end = skip_class(s, at, false);
		add_part(m, list, s, at, end);
		at = skip_class(s, end, true);
	}
}

/* The same from the right: the words, all but the last `most` of them joined as they stood. */
static void split_words_right(struct machine* m, const struct string* s, int64_t most, struct list* list) {
	struct list* const all = value_list(m, LIST).list;
	split_words(m, s, -1, all);
	const int64_t first = most < 0 || most >= all->n ? 0 : all->n - most;
	if (first > 0) {
		const struct string* const last = all->item[first - 1].string;
		const size_t end = (size_t)(last->data - s->data) + last->size;
		add_part(m, list, s, 0, end);
	}
	for (int64_t i = first; i < all->n; i++)
		list_add(m, list, all->item[i]);
}

static void split_at(struct machine* m, const struct string* s, const struct string* by, int64_t most,
                     struct list* list) {
	size_t start = 0;
	for (; most != 0; most--) {
		const size_t at = string_find(m, s, by, start, s->size);
		if (at == SIZE_MAX)
			break;
		add_part(m, list, s, start, at);
		start = at + by->size;
	}
	add_part(m, list, s, start, s->size);
}

static void split_at_right(struct machine* m, const struct string* s, const struct string* by, int64_t most,
                           struct list* list) {
	size_t end = s->size;
	for (; most != 0; most--) {
		const size_t at = string_find_last(m, s, by, 0, end);
		if (at == SIZE_MAX)
			break;
		add_part(m, list, s, at + by->size, end);
		end = at;
	}
	add_part(m, list, s, 0, end);
	reverse_list(list);
}

static struct value split(struct machine* m, struct value v, const struct arguments* a,
                          const struct method_of* self) {
	static const char* const name[] = {"sep", "maxsplit", NULL};
	struct value given[2], out = value_list(m, LIST);
	arguments_take(m, a, self->name, name, 0, given);
	if (given[0].kind == NONE)
		given[0].kind = ABSENT;
	const struct string* const by = argument_string(m, given[0], self->name, NULL);
	const int64_t most = argument_integer(m, given[1], self->name, -1);
	if (by && by->size == 0)
		machine_fail(m, "empty separator");
	if (by)
		(self->how == RIGHT ? split_at_right : split_at)(m, v.string, by, most, out.list);
	else
		(self->how == RIGHT ? split_words_right : split_words)(m, v.string, most, out.list);
	return out;
}

static bool ends_line(uint32_t code) {
	return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
	       code == 0x2028 || code == 0x2029;
}

static struct value method_splitlines(struct machine* m, struct value v, const struct arguments* a,
                                      const struct method_of* self) {
	static const char* const name[] = {"keepends", NULL};
	struct value keep, out = value_list(m, LIST);
	const struct string* const s = v.string;
	arguments_take(m, a, self->name, name, 0, &keep);
	size_t start = 0;
	uint32_t code;
	for (size_t at = 0, length; at < s->size; at += length) {
		length = string_character(s, at, &code);
		if (!ends_line(code))
			continue;
		length += code == '\r' && at + 1 < s->size && s->data[at + 1] == '\n';
		add_part(m, out.list, s, start, value_truth(keep) ? at + length : at);
		start = at + length;
	}
	if (start < s->size)
		add_part(m, out.list, s, start, s->size);
	return out;
}

static struct value partition(struct machine* m, struct value v, const struct arguments* a,
                              const struct method_of* self) {
	static const char* const name[] = {"sep", NULL};
	const bool right = self->how == RIGHT;
	struct value by, out = value_list(m, TUPLE);
	const struct string* const s = v.string;
	arguments_take(m, a, self->name, name, 1, &by);
	const struct string* const w = argument_string(m, by, self->name, NULL);
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

static struct value method_join(struct machine* m, struct value v, const struct arguments* a,
                                const struct method_of* self) {
	static const char* const name[] = {"iterable", NULL};
	struct value over;
	struct builder b = {.machine = m};
	arguments_take(m, a, self->name, name, 1, &over);
	const struct list* const items = value_items(m, over);
	for (int i = 0; i < items->n; i++) {
		if (items->item[i].kind != STRING)
			machine_fail(m, "sequence item %d: expected str instance, %s found", i,
			             value_type(items->item[i]));
		if (i)
			builder_string(&b, v.string);
		builder_string(&b, items->item[i].string);
	}
	return marked_as(m, builder_end(&b), v.string);
}

static struct value method_format(struct machine* m, struct value v, const struct arguments* a,
                                  const struct method_of* self) {
	(void)self;
	return format_braces(m, v.string, a);
}

static const struct method_of text_methods[] = {{"lower", change_case, CASES(LOWER, LOWER)},
                                                {"upper", change_case, CASES(UPPER, UPPER)},
                                                {"title", change_case, FIRST_OF_WORDS | CASES(TITLE, LOWER)},
                                                {"capitalize", change_case, CASES(TITLE, LOWER)},
                                                {"swapcase", change_case, CASES(SWAP, SWAP)},
                                                {"casefold", change_case, CASES(LOWER, LOWER)},
                                                {"isdigit", all_are, DECIMAL},
                                                {"isdecimal", all_are, DECIMAL},
                                                {"isnumeric", all_are, NUMERIC},
                                                {"isalpha", all_are, LETTER},
                                                {"isalnum", all_are, LETTER | NUMERIC},
                                                {"isspace", all_are, SPACE},
                                                {"isascii", all_are, ASCII},
                                                {"isupper", all_in_case, UPPER},
                                                {"islower", all_in_case, LOWER},
                                                {"strip", strip, LEFT | RIGHT},
                                                {"lstrip", strip, LEFT},
                                                {"rstrip", strip, RIGHT},
                                                {"startswith", test_end, LEFT},
                                                {"endswith", test_end, RIGHT},
                                                {"removeprefix", remove_end, LEFT},
                                                {"removesuffix", remove_end, RIGHT},
                                                {"center", justify, LEFT | RIGHT},
                                                {"ljust", justify, RIGHT},
                                                {"rjust", justify, LEFT},
                                                {"zfill", method_zfill, 0},
                                                {"find", find, 0},
                                                {"rfind", find, LAST},
                                                {"index", find, FAILING},
                                                {"rindex", find, LAST | FAILING},
                                                {"count", method_count, 0},
                                                {"replace", method_replace, 0},
                                                {"split", split, LEFT},
                                                {"rsplit", split, RIGHT},
                                                {"splitlines", method_splitlines, 0},
                                                {"partition", partition, LEFT},
                                                {"rpartition", partition, RIGHT},
                                                {"join", method_join, 0},
                                                {"format", method_format, 0},
                                                {NULL, NULL, 0}};

/* ---- dicts -------------------------------------------------------------------------------- */

static struct value dict_get(struct machine* m, struct value v, const struct arguments* a,
                             const struct method_of* self) {
	static const char* const name[] = {"key", "default", NULL};
	struct value given[2];
	arguments_take(m, a, self->name, name, 1, given);
	const struct value* const found = dict_find(m, v.dict, given[0]);
	return found ? *found : given[1].kind == ABSENT ? value_none() : given[1];
}

enum { KEYS, VALUES, PAIRS };

static struct value dict_view(struct machine* m, struct value v, const struct arguments* a,
                              const struct method_of* self) {
	const int part = self->how;
	static const char* const name[] = {"dict_keys", "dict_values", "dict_items"};
	struct value view = value_list(m, VIEW);
	take_none(m, a, self);
	view.list->name = name[part];
	for (int i = 0; i < v.dict->n; i++) {
		const struct entry* const e = &v.dict->entry[i];
		list_add(m, view.list,
		         part == KEYS     ? e->key
		         : part == VALUES ? e->value
		                          : value_pair(m, e->key, e->value));
	}
	return view;
}

/* Nothing is changed in place, so a copy is the thing itself. */
static struct value same(struct machine* m, struct value v, const struct arguments* a,
                         const struct method_of* self) {
	take_none(m, a, self);
	return v;
}

static const struct method_of dict_methods[] = {{"get", dict_get, 0},
                                                {"keys", dict_view, KEYS},
                                                {"values", dict_view, VALUES},
                                                {"items", dict_view, PAIRS},
                                                {"copy", same, 0},
                                                {"clear", NULL, 0},
                                                {"pop", NULL, 0},
                                                {"popitem", NULL, 0},
                                                {"setdefault", NULL, 0},
                                                {"update", NULL, 0},
                                                {NULL, NULL, 0}};

/* ---- lists -------------------------------------------------------------------------------- */

static struct value list_index(struct machine* m, struct value v, const struct arguments* a,
                               const struct method_of* self) {
	static const char* const name[] = {"value", NULL};
	struct value what;
	arguments_take(m, a, self->name, name, 1, &what);
	for (int i = 0; i < v.list->n; i++)
		if (value_equal(m, v.list->item[i], what))
			return value_integer(i);
	machine_fail(m, "a value is not in list");
}

static struct value list_count(struct machine* m, struct value v, const struct arguments* a,
                               const struct method_of* self) {
	static const char* const name[] = {"value", NULL};
	struct value what;
	int64_t n = 0;
	arguments_take(m, a, self->name, name, 1, &what);
	for (int i = 0; i < v.list->n; i++)
		n += value_equal(m, v.list->item[i], what);
	return value_integer(n);
}

static const struct method_of list_methods[] = {
    {"index", list_index, 0}, {"count", list_count, 0}, {"copy", same, 0},    {"append", NULL, 0},
    {"clear", NULL, 0},       {"pop", NULL, 0},         {"reverse", NULL, 0}, {"insert", NULL, 0},
    {"sort", NULL, 0},        {"extend", NULL, 0},      {"remove", NULL, 0},  {NULL, NULL, 0}};

/* ---- loops -------------------------------------------------------------------------------- */

static struct value loop_cycle(struct machine* m, struct value v, const struct arguments* a,
                               const struct method_of* self) {
	(void)self;
	if (a->n == 0)
		machine_fail(m, "no items for cycling given");
	return a->value[v.loop->at % a->n];
}

static struct value loop_changed(struct machine* m, struct value v, const struct arguments* a,
                                 const struct method_of* self) {
	(void)self;
	struct value now = value_list(m, TUPLE);
	for (int i = 0; i < a->n; i++)
		list_add(m, now.list, a->value[i]);
	const bool changed = v.loop->changed.kind == ABSENT || !value_equal(m, v.loop->changed, now);
	v.loop->changed = now;
	return value_boolean(changed);
}

static const struct method_of loop_methods[] = {
    {"cycle", loop_cycle, 0}, {"changed", loop_changed, 0}, {NULL, NULL, 0}};

const struct method_of* library_method(enum kind kind, const struct string* name) {
	const struct method_of* table = kind == STRING ? text_methods
	                                : kind == DICT ? dict_methods
	                                : kind == LIST ? list_methods
	                                : kind == LOOP ? loop_methods
	                                               : NULL;
	if (kind == TUPLE || kind == RANGE) { /* index and count alone */
		for (int i = 0; i < 2; i++)
			if (string_is(name, list_methods[i].name))
				return &list_methods[i];
	}
	for (; table && table->name; table++)
		if (string_is(name, table->name))
			return table;
	return NULL;
}

struct value text_method(struct machine* m, const struct string* text, const char* name,
                         const struct arguments* a) {
	const struct method_of* const method = library_method(STRING, string_of(m, name));
	return method->call(m, value_string(text), a, method);
}
