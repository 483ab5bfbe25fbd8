/* Methods of strings, dicts, lists and loops. Those that change a value in place have no function: the
 * sandbox of chat templates forbids them. */
#include <string.h>

#include <utf8proc.h>

#include "core/jinja/library.h"

typedef struct value method(struct machine*, struct value, const struct arguments*);

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

static void take_none(struct machine* m, const struct arguments* a, const char* of) {
	static const char* const name[] = {NULL};
	arguments_take(m, a, of, name, 0, NULL);
}

static struct value method_lower(struct machine* m, struct value v, const struct arguments* a) {
	take_none(m, a, "lower");
	return value_string(string_lower(m, v.string));
}
static struct value method_upper(struct machine* m, struct value v, const struct arguments* a) {
	take_none(m, a, "upper");
	return value_string(string_upper(m, v.string));
}
static struct value method_title(struct machine* m, struct value v, const struct arguments* a) {
	take_none(m, a, "title");
	return value_string(with_case(m, v.string, TITLE, LOWER, true));
}
static struct value method_capitalize(struct machine* m, struct value v, const struct arguments* a) {
	take_none(m, a, "capitalize");
	return value_string(with_case(m, v.string, TITLE, LOWER, false));
}
static struct value method_swapcase(struct machine* m, struct value v, const struct arguments* a) {
	take_none(m, a, "swapcase");
	return value_string(with_case(m, v.string, SWAP, SWAP, false));
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

static struct value all_are(struct machine* m, struct value v, const struct arguments* a, const char* of,
                            int classes) {
	take_none(m, a, of);
	uint32_t code;
	for (size_t at = 0; at < v.string->size;) {
		at += string_character(v.string, at, &code);
		if (!(classes_of(code) & classes))
			return value_boolean(false);
	}
	return value_boolean(v.string->size > 0 || classes == ASCII);
}

static struct value method_isdigit(struct machine* m, struct value v, const struct arguments* a) {
	return all_are(m, v, a, "isdigit", DECIMAL);
}
static struct value method_isdecimal(struct machine* m, struct value v, const struct arguments* a) {
	return all_are(m, v, a, "isdecimal", DECIMAL);
}
static struct value method_isnumeric(struct machine* m, struct value v, const struct arguments* a) {
	return all_are(m, v, a, "isnumeric", NUMERIC);
}
static struct value method_isalpha(struct machine* m, struct value v, const struct arguments* a) {
	return all_are(m, v, a, "isalpha", LETTER);
}
static struct value method_isalnum(struct machine* m, struct value v, const struct arguments* a) {
	return all_are(m, v, a, "isalnum", LETTER | NUMERIC);
}
static struct value method_isspace(struct machine* m, struct value v, const struct arguments* a) {
	return all_are(m, v, a, "isspace", SPACE);
}
static struct value method_isascii(struct machine* m, struct value v, const struct arguments* a) {
	return all_are(m, v, a, "isascii", ASCII);
}

/* Some letter has a case, and changing to `to` changes nothing. */
static struct value all_in_case(struct machine* m, struct value v, enum letter to) {
	const struct string* const changed = with_case(m, v.string, to, to, false);
	bool cased = false;
	uint32_t code;
	for (size_t at = 0; at < v.string->size;) {
		at += string_character(v.string, at, &code);
		cased |= is_cased(code);
	}
	return value_boolean(cased && string_equal(m, v.string, changed));
}
static struct value method_isupper(struct machine* m, struct value v, const struct arguments* a) {
	take_none(m, a, "isupper");
	return all_in_case(m, v, UPPER);
}
static struct value method_islower(struct machine* m, struct value v, const struct arguments* a) {
	take_none(m, a, "islower");
	return all_in_case(m, v, LOWER);
}

/* ---- ends --------------------------------------------------------------------------------- */

static struct value strip(struct machine* m, struct value v, const struct arguments* a, bool left,
                          bool right) {
	static const char* const name[] = {"chars", NULL};
	struct value set;
	arguments_take(m, a, "strip", name, 0, &set);
	if (set.kind == NONE)
		set.kind = ABSENT;
	return value_string(string_strip(m, v.string, argument_string(m, set, "strip", NULL), left, right));
}
static struct value method_strip(struct machine* m, struct value v, const struct arguments* a) {
	return strip(m, v, a, true, true);
}
static struct value method_lstrip(struct machine* m, struct value v, const struct arguments* a) {
	return strip(m, v, a, true, false);
}
static struct value method_rstrip(struct machine* m, struct value v, const struct arguments* a) {
	return strip(m, v, a, false, true);
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
                    bool at_start) {
	if (what.kind == TUPLE) {
		for (int i = 0; i < what.list->n; i++)
			if (has_end(m, s, what.list->item[i], range, at_start))
				return true;
		return false;
	}
	const struct string* const w = argument_string(m, what, at_start ? "startswith" : "endswith", NULL);
	if (range[0] > range[1] || w->size > range[1] - range[0])
		return false;
	machine_charge(m, w->size);
	return w->size == 0 ||
	       memcmp(s->data + (at_start ? range[0] : range[1] - w->size), w->data, w->size) == 0;
}

static struct value test_end(struct machine* m, struct value v, const struct arguments* a, bool at_start) {
	static const char* const name[] = {"prefix", "start", "end", NULL};
	struct value given[3];
	size_t range[2] = {0, v.string->size};
	arguments_take(m, a, at_start ? "startswith" : "endswith", name, 1, given);
	if (given[1].kind != ABSENT || given[2].kind != ABSENT)
		byte_range(m, v.string, given[1], given[2], range);
	if (given[0].kind == TUPLE && given[0].list->n && given[0].list->item[0].kind == TUPLE)
		machine_fail(m, "startswith and endswith take a string or a tuple of strings");
	return value_boolean(has_end(m, v.string, given[0], range, at_start));
}
static struct value method_startswith(struct machine* m, struct value v, const struct arguments* a) {
	return test_end(m, v, a, true);
}
static struct value method_endswith(struct machine* m, struct value v, const struct arguments* a) {
	return test_end(m, v, a, false);
}

static struct value remove_end(struct machine* m, struct value v, const struct arguments* a, bool at_start) {
	static const char* const name[] = {"affix", NULL};
	struct value what;
	const size_t n = v.string->size, range[2] = {0, n};
	arguments_take(m, a, "removeprefix", name, 1, &what);
	const struct string* const w = argument_string(m, what, "removeprefix", NULL);
	if (!has_end(m, v.string, what, range, at_start))
		return v;
	return value_string(at_start ? string_part(m, v.string, w->size, n)
	                             : string_part(m, v.string, 0, n - w->size));
}
static struct value method_removeprefix(struct machine* m, struct value v, const struct arguments* a) {
	return remove_end(m, v, a, true);
}
static struct value method_removesuffix(struct machine* m, struct value v, const struct arguments* a) {
	return remove_end(m, v, a, false);
}

/* ---- width -------------------------------------------------------------------------------- */

static struct value justify(struct machine* m, struct value v, const struct arguments* a, const char* of,
                            int left, int right) {
	static const char* const name[] = {"width", "fillchar", NULL};
	struct value given[2];
	arguments_take(m, a, of, name, 1, given);
	const struct string* const fill = argument_string(m, given[1], of, string_of(m, " "));
	const int64_t width = argument_integer(m, given[0], of, 0);
	const int64_t length = string_length(m, v.string), room = width > length ? width - length : 0;
	const int64_t before = left && right ? room / 2 + (room & width & 1) : left ? room : 0;
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
static struct value method_center(struct machine* m, struct value v, const struct arguments* a) {
	return justify(m, v, a, "center", 1, 1);
}
static struct value method_ljust(struct machine* m, struct value v, const struct arguments* a) {
	return justify(m, v, a, "ljust", 0, 1);
}
static struct value method_rjust(struct machine* m, struct value v, const struct arguments* a) {
	return justify(m, v, a, "rjust", 1, 0);
}

static struct value method_zfill(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"width", NULL};
	struct value width;
	arguments_take(m, a, "zfill", name, 1, &width);
	const struct string* const s = v.string;
	const size_t sign = s->size && (s->data[0] == '-' || s->data[0] == '+');
	int64_t room = argument_integer(m, width, "zfill", 0) - string_length(m, s);
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

/* The character where `sub` lies first or last, or -1. */
static int64_t find(struct machine* m, struct value v, const struct arguments* a, const char* of, bool last) {
	static const char* const name[] = {"sub", "start", "end", NULL};
	struct value given[3];
	size_t range[2];
	arguments_take(m, a, of, name, 1, given);
	const struct string* const sub = argument_string(m, given[0], of, NULL);
	byte_range(m, v.string, given[1], given[2], range);
	const size_t at = (last ? string_find_last : string_find)(m, v.string, sub, range[0], range[1]);
	return at == SIZE_MAX ? -1 : characters_before(m, v.string, at);
}
static struct value method_find(struct machine* m, struct value v, const struct arguments* a) {
	return value_integer(find(m, v, a, "find", false));
}
static struct value method_rfind(struct machine* m, struct value v, const struct arguments* a) {
	return value_integer(find(m, v, a, "rfind", true));
}
static struct value method_index(struct machine* m, struct value v, const struct arguments* a) {
	const int64_t at = find(m, v, a, "index", false);
	if (at < 0)
		machine_fail(m, "substring not found");
	return value_integer(at);
}
static struct value method_rindex(struct machine* m, struct value v, const struct arguments* a) {
	const int64_t at = find(m, v, a, "rindex", true);
	if (at < 0)
		machine_fail(m, "substring not found");
	return value_integer(at);
}

static struct value method_count(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"sub", "start", "end", NULL};
	struct value given[3];
	size_t range[2];
	int64_t n = 0;
	arguments_take(m, a, "count", name, 1, given);
	const struct string* const sub = argument_string(m, given[0], "count", NULL);
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

static struct value method_replace(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"old", "new", "count", NULL};
	struct value given[3];
	arguments_take(m, a, "replace", name, 2, given);
	if (given[2].kind == NONE)
		given[2].kind = ABSENT;
	const struct string *const s = v.string, *const from = argument_string(m, given[0], "replace", NULL),
	                           *const to = argument_string(m, given[1], "replace", NULL);
	int64_t left = argument_integer(m, given[2], "replace", -1);
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

static struct value split(struct machine* m, struct value v, const struct arguments* a, bool right) {
	static const char* const name[] = {"sep", "maxsplit", NULL};
	struct value given[2], out = value_list(m, LIST);
	arguments_take(m, a, "split", name, 0, given);
	if (given[0].kind == NONE)
		given[0].kind = ABSENT;
	const struct string* const by = argument_string(m, given[0], "split", NULL);
	const int64_t most = argument_integer(m, given[1], "split", -1);
	if (by && by->size == 0)
		machine_fail(m, "empty separator");
	if (by)
		(right ? split_at_right : split_at)(m, v.string, by, most, out.list);
	else
		(right ? split_words_right : split_words)(m, v.string, most, out.list);
	return out;
}
static struct value method_split(struct machine* m, struct value v, const struct arguments* a) {
	return split(m, v, a, false);
}
static struct value method_rsplit(struct machine* m, struct value v, const struct arguments* a) {
	return split(m, v, a, true);
}

static bool ends_line(uint32_t code) {
	return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
	       code == 0x2028 || code == 0x2029;
}

static struct value method_splitlines(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"keepends", NULL};
	struct value keep, out = value_list(m, LIST);
	const struct string* const s = v.string;
	arguments_take(m, a, "splitlines", name, 0, &keep);
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

static struct value partition(struct machine* m, struct value v, const struct arguments* a, bool right) {
	static const char* const name[] = {"sep", NULL};
	struct value by, out = value_list(m, TUPLE);
	const struct string* const s = v.string;
	arguments_take(m, a, "partition", name, 1, &by);
	const struct string* const w = argument_string(m, by, "partition", NULL);
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
static struct value method_partition(struct machine* m, struct value v, const struct arguments* a) {
	return partition(m, v, a, false);
}
static struct value method_rpartition(struct machine* m, struct value v, const struct arguments* a) {
	return partition(m, v, a, true);
}

static struct value method_join(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"iterable", NULL};
	struct value over;
	struct builder b = {.machine = m};
	arguments_take(m, a, "join", name, 1, &over);
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

static struct value method_format(struct machine* m, struct value v, const struct arguments* a) {
	return format_braces(m, v.string, a);
}

static const struct method_of text_methods[] = {{"lower", method_lower},
                                                {"upper", method_upper},
                                                {"title", method_title},
                                                {"capitalize", method_capitalize},
                                                {"swapcase", method_swapcase},
                                                {"casefold", method_lower},
                                                {"isdigit", method_isdigit},
                                                {"isdecimal", method_isdecimal},
                                                {"isnumeric", method_isnumeric},
                                                {"isalpha", method_isalpha},
                                                {"isalnum", method_isalnum},
                                                {"isspace", method_isspace},
                                                {"isascii", method_isascii},
                                                {"isupper", method_isupper},
                                                {"islower", method_islower},
                                                {"strip", method_strip},
                                                {"lstrip", method_lstrip},
                                                {"rstrip", method_rstrip},
                                                {"startswith", method_startswith},
                                                {"endswith", method_endswith},
                                                {"removeprefix", method_removeprefix},
                                                {"removesuffix", method_removesuffix},
                                                {"center", method_center},
                                                {"ljust", method_ljust},
                                                {"rjust", method_rjust},
                                                {"zfill", method_zfill},
                                                {"find", method_find},
                                                {"rfind", method_rfind},
                                                {"index", method_index},
                                                {"rindex", method_rindex},
                                                {"count", method_count},
                                                {"replace", method_replace},
                                                {"split", method_split},
                                                {"rsplit", method_rsplit},
                                                {"splitlines", method_splitlines},
                                                {"partition", method_partition},
                                                {"rpartition", method_rpartition},
                                                {"join", method_join},
                                                {"format", method_format},
                                                {NULL, NULL}};

/* ---- dicts -------------------------------------------------------------------------------- */

static struct value dict_get(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"key", "default", NULL};
	struct value given[2];
	arguments_take(m, a, "get", name, 1, given);
	const struct value* const found = dict_find(m, v.dict, given[0]);
	return found ? *found : given[1].kind == ABSENT ? value_none() : given[1];
}

enum part { KEYS, VALUES, PAIRS };

static struct value dict_view(struct machine* m, struct value v, const struct arguments* a, enum part part) {
	static const char* const name[] = {"dict_keys", "dict_values", "dict_items"};
	struct value view = value_list(m, VIEW);
	take_none(m, a, name[part] + 5);
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
static struct value dict_keys(struct machine* m, struct value v, const struct arguments* a) {
	return dict_view(m, v, a, KEYS);
}
static struct value dict_values(struct machine* m, struct value v, const struct arguments* a) {
	return dict_view(m, v, a, VALUES);
}
static struct value dict_items(struct machine* m, struct value v, const struct arguments* a) {
	return dict_view(m, v, a, PAIRS);
}

/* Nothing is changed in place, so a copy is the thing itself. */
static struct value same(struct machine* m, struct value v, const struct arguments* a) {
	take_none(m, a, "copy");
	return v;
}

static const struct method_of dict_methods[] = {
    {"get", dict_get}, {"keys", dict_keys}, {"values", dict_values}, {"items", dict_items}, {"copy", same},
    {"clear", NULL},   {"pop", NULL},       {"popitem", NULL},       {"setdefault", NULL},  {"update", NULL},
    {NULL, NULL}};

/* ---- lists -------------------------------------------------------------------------------- */

static struct value list_index(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"value", NULL};
	struct value what;
	arguments_take(m, a, "index", name, 1, &what);
	for (int i = 0; i < v.list->n; i++)
		if (value_equal(m, v.list->item[i], what))
			return value_integer(i);
	machine_fail(m, "a value is not in list");
}

static struct value list_count(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"value", NULL};
	struct value what;
	int64_t n = 0;
	arguments_take(m, a, "count", name, 1, &what);
	for (int i = 0; i < v.list->n; i++)
		n += value_equal(m, v.list->item[i], what);
	return value_integer(n);
}

static const struct method_of list_methods[] = {{"index", list_index}, {"count", list_count}, {"copy", same},
                                                {"append", NULL},      {"clear", NULL},       {"pop", NULL},
                                                {"reverse", NULL},     {"insert", NULL},      {"sort", NULL},
                                                {"extend", NULL},      {"remove", NULL},      {NULL, NULL}};

/* ---- loops -------------------------------------------------------------------------------- */

static struct value loop_cycle(struct machine* m, struct value v, const struct arguments* a) {
	if (a->n == 0)
		machine_fail(m, "no items for cycling given");
	return a->value[v.loop->at % a->n];
}

static struct value loop_changed(struct machine* m, struct value v, const struct arguments* a) {
	struct value now = value_list(m, TUPLE);
	for (int i = 0; i < a->n; i++)
		list_add(m, now.list, a->value[i]);
	const bool changed = v.loop->changed.kind == ABSENT || !value_equal(m, v.loop->changed, now);
	v.loop->changed = now;
	return value_boolean(changed);
}

static const struct method_of loop_methods[] = {
    {"cycle", loop_cycle}, {"changed", loop_changed}, {NULL, NULL}};

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
