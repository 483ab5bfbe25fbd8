/* Rewrites Oniguruma's regular expressions for PCRE2.
 *
 * A class stays a PCRE2 class if it is a list of members. Nested classes, negated members and intersections
 * become alternatives and look-aheads that match one character. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "core/files/unicode_category.h"
#include "core/files/utf8.h"
#include "core/text/expression.h"

/* The contents of classes: Unicode's White_Space, word characters, hexadecimal digits. */
#define WHITE "\\p{Z}\\t-\\r\\x{85}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define HEX "0-9A-Fa-f"
/* Outside of classes, Oniguruma counts Latin-1's superscripts and fractions as word characters. */
#define BARE WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define IS "[" BARE "]"
#define NOT_GRAPH "\\p{Cc}\\p{Cn}\\p{Cs}"

enum { MAX_NESTING = 16, MAX_GROUPS = 64 };
#define NOTHING SIZE_MAX

struct dialect_group {
	size_t start; /* of what is written for it */
	int closings; /* parentheses that end with it, of options such as (?i) within */
	bool spaced;  /* (?x): white space and comments stand for nothing */
};

struct dialect_translation {
	const char* pattern;
	size_t size, at;
	struct dialect_group group[MAX_GROUPS]; /* those that are open; the first is the whole pattern */
	int depth;
	size_t atom;   /* where what is repeated next begins in the output */
	bool repeated; /* it already is */
	struct error* error;
};

struct members {          /* of a class, up to an && */
	struct buffer flat;   /* the inside of a PCRE2 class */
	struct buffer nested; /* alternatives that a class cannot hold, each after a | */
};

static void add_text(struct buffer* out, const char* text) { buffer_add(out, text, strlen(text)); }
static void add_buffer(struct buffer* out, const struct buffer* text) {
	buffer_add(out, text->data, text->size);
	out->failed |= text->failed;
}

bool expression_refuse(const char* pattern, size_t size, const char* why, struct error* error) {
	return error_set(error, "expression \"%.*s\": %s", (int)(size < 80 ? size : 80), pattern, why);
}

static bool refuse_pattern(const struct dialect_translation* t, const char* why) {
	return expression_refuse(t->pattern + t->at, t->size - t->at, why, t->error);
}

static char peek_byte(const struct dialect_translation* t, size_t ahead) {
	return t->size - t->at > ahead ? t->pattern[t->at + ahead] : 0;
}

/* ---- escapes ---------------------------------------------------------------------------------- */

/* Sets by name, for [:alpha:] and \p{Alpha} alike. */
static const struct {
	const char *name, *set; /* behind a ^: what is not in it */
} sets[] = {{"alnum", "\\p{Alphabetic}\\p{Nd}"},
            {"alpha", "\\p{Alphabetic}"},
            {"ascii", "\\x00-\\x7f"},
            {"blank", "\\p{Zs}\\t"},
            {"cntrl", "\\p{Cc}"},
            {"digit", "\\p{Nd}"},
            {"lower", "\\p{Lowercase}"},
            {"graph", "^" WHITE NOT_GRAPH},
            {"print", "^\\p{Zl}\\p{Zp}" NOT_GRAPH},
            {"punct", "\\p{P}\\p{S}"},
            {"space", WHITE},
            {"upper", "\\p{Uppercase}"},
            {"word", WORD},
            {"xdigit", HEX}};

/* A property as \p{…} names it. */
struct property {
	char name[48]; /* in small letters, without spaces, - and _ */
	bool negated;
	const char* set; /* the inside of a class, perhaps behind a ^; NULL: PCRE2 knows the name */
};

/* \p{Han} means characters whose Script is Han. PCRE2 would match those whose Script_Extensions contain
 * it. */
static bool is_script(const char* name) {
	char pattern[64];
	int code;
	PCRE2_SIZE offset;
	const int length = snprintf(pattern, sizeof pattern, "\\p{sc:%s}", name);
	if (length < 0 || length >= (int)sizeof pattern || strpbrk(name, ":="))
		return false;
	pcre2_code* const compiled =
	    pcre2_compile((PCRE2_SPTR)pattern, (size_t)length, PCRE2_UTF, &code, &offset, NULL);
	pcre2_code_free(compiled);
	return compiled;
}

/* Reads \p{…} or \P{…}, at the backslash, and goes past it. */
static bool read_property(struct dialect_translation* t, struct property* p) {
	const char* const open = t->pattern + t->at;
	const char* const close = memchr(open, '}', t->size - t->at);
	size_t n = 0;
	*p = (struct property){.negated = open[1] == 'P'};
	const char* name = open + 3;
	if (close && *name == '^') {
		p->negated = !p->negated;
		name++;
	}
	for (; close && name < close; name++) {
		if (*name == ' ' || *name == '_' || *name == '-')
			continue;
		if (n + 1 == sizeof p->name)
			return refuse_pattern(t, "this property is not known");
		p->name[n++] = (char)(*name >= 'A' && *name <= 'Z' ? *name | 0x20 : *name);
	}
	if (n == 0)
		return refuse_pattern(t, "a property is not closed or has no name");
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
		if (strcmp(p->name, sets[i].name) == 0 && strcmp(p->name, "punct") != 0)
			p->set = sets[i].set;
	const char* const category = p->set ? NULL : unicode_category_code(p->name);
	if (category)
		snprintf(p->name, sizeof p->name, "%s", category);
	if (strcmp(p->name, "assigned") == 0) {
		snprintf(p->name, sizeof p->name, "Cn");
		p->negated = !p->negated;
	}
	t->at = (size_t)(close + 1 - t->pattern);
	return true;
}

static void add_property(const struct property* p, struct buffer* out) {
	add_text(out, p->negated ? "\\P{" : "\\p{");
	if (is_script(p->name))
		add_text(out, "sc:");
	add_text(out, p->name);
	add_text(out, "}");
}

/* \uHHHH */
static bool add_code(struct dialect_translation* t, struct buffer* out) {
	char code[16];
	for (size_t i = 2; i < 6; i++)
		if (hexadecimal_digit(peek_byte(t, i)) < 0)
			return refuse_pattern(t, "\\u is not followed by four hexadecimal digits");
	snprintf(code, sizeof code, "\\x{%.4s}", t->pattern + t->at + 2);
	add_text(out, code);
	t->at += 6;
	return true;
}

/* The set that the letter stands for, in either case; NULL: none. */
static const char* set_of(char letter) {
	switch (letter | 0x20) {
	case 's':
		return WHITE;
	case 'w':
		return WORD;
	case 'h':
		return HEX;
	default:
		return NULL;
	}
}

/* Letters whose escapes PCRE2 reads as Oniguruma does. Any other letter stands for itself behind a backslash,
 * the p of a \p without braces too. */
static bool is_shared(char letter) { return strchr("AGKNRXZadefgkrntxzcDbBvsSwWhH", letter) != NULL; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Rewrites an escape that means the same in and outside of classes; done: it was one. */
static bool add_common(struct dialect_translation* t, struct buffer* out, bool* done) {
	const char letter = peek_byte(t, 1);
	*done = true;
	if (!letter)
		return refuse_pattern(t, "a backslash at the end escapes nothing");
	if (letter == 'u')
		return add_code(t, out);
	if (letter == 'y' || letter == 'Y' || ((letter == 'C' || letter == 'M') && peek_byte(t, 2) == '-') ||
	    (letter == 'o' && peek_byte(t, 2) == '{'))
		return refuse_pattern(t, "this escape is not supported");
	*done = is_letter(letter) && !is_shared(letter);
	if (*done) {
		buffer_add(out, &letter, 1);
		t->at += 2;
	}
	return true;
}

static bool is_property(const struct dialect_translation* t) {
	return (peek_byte(t, 1) | 0x20) == 'p' && peek_byte(t, 2) == '{';
}

/* A set outside of a class. */
static void add_set(struct buffer* out, const char* set, bool negated) {
	add_text(out, negated != (*set == '^') ? "[^" : "[");
	add_text(out, set + (*set == '^'));
	add_text(out, "]");
}

/* An escape that PCRE2 reads alike, with its code in braces if it has one. */
static bool add_as_it_is(struct dialect_translation* t, struct buffer* out) {
	const char* const from = t->pattern + t->at;
	const char* const close =
	    peek_byte(t, 1) == 'x' && peek_byte(t, 2) == '{' ? memchr(from, '}', t->size - t->at) : NULL;
	const size_t length =
	    close ? (size_t)(close + 1 - from) : 1 + utf8_character(from + 1, t->size - t->at - 1, NULL);
	buffer_add(out, from, length > 1 ? length : 2);
	t->at += length > 1 ? length : 2;
	return true;
}

static bool add_escape(struct dialect_translation* t, struct buffer* out) {
	const char letter = peek_byte(t, 1);
	const char* const set = set_of(letter);
	struct property property;
	bool done;
	if (is_property(t)) {
		if (!read_property(t, &property))
			return false;
		if (property.set)
			add_set(out, strcmp(property.name, "word") == 0 ? BARE : property.set, property.negated);
		else
			add_property(&property, out);
		return true;
	}
	if (letter == 'O') {
		add_text(out, "(?s:.)");
		t->at += 2;
		return true;
	}
	if (!add_common(t, out, &done))
		return false;
	if (done)
		return true;
	if (set)
		add_set(out, (letter | 0x20) == 'w' ? BARE : set, !(letter & 0x20));
	else if (letter == 'b')
		add_text(out, "(?:(?<=" IS ")(?!" IS ")|(?<!" IS ")(?=" IS "))");
	else if (letter == 'B')
		add_text(out, "(?:(?<=" IS ")(?=" IS ")|(?<!" IS ")(?!" IS "))");
	else if (letter == 'v')
		add_text(out, "\\x{0b}");
	else
		return add_as_it_is(t, out);
	t->at += 2;
	return true;
}

/* ---- classes ---------------------------------------------------------------------------------- */

static void add_member(struct members* m, const char* set, bool negated) {
	if (negated == (*set == '^')) {
		add_text(&m->flat, set + (*set == '^'));
		return;
	}
	add_text(&m->nested, "|");
	add_set(&m->nested, set, negated);
}

static bool add_escaped_member(struct dialect_translation* t, struct members* m) {
	const char letter = peek_byte(t, 1);
	struct property property;
	bool done;
	if (is_property(t)) {
		if (!read_property(t, &property))
			return false;
		if (property.set)
			add_member(m, property.set, property.negated);
		else
			add_property(&property, &m->flat);
		return true;
	}
	if (!add_common(t, &m->flat, &done))
		return false;
	if (done)
		return true;
	if (set_of(letter))
		add_member(m, set_of(letter), !(letter & 0x20));
	else if (letter == 'b' || letter == 'v')
		add_text(&m->flat, letter == 'b' ? "\\x{08}" : "\\x{0b}");
	else
		buffer_add(&m->flat, t->pattern + t->at, 2);
	t->at += 2;
	return true;
}

/* [:alpha:] or [:^alpha:]. */
static bool add_bracket(struct dialect_translation* t, struct members* m) {
	const bool negated = peek_byte(t, 2) == '^';
	const char* const name = t->pattern + t->at + 2 + negated;
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		const size_t size = strlen(sets[i].name);
		if (strncmp(name, sets[i].name, size) != 0 || strncmp(name + size, ":]", 2) != 0)
			continue;
		add_member(m, sets[i].set, negated);
		t->at = (size_t)(name + size + 2 - t->pattern);
		return true;
	}
	return refuse_pattern(t, "this class of characters is not supported");
}

/* Matches one of the members. */
static void close_members(struct members* m, struct buffer* out) {
	if (m->nested.size > 0)
		add_text(out, "(?:");
	if (m->flat.size > 0) {
		add_text(out, "[");
		add_buffer(out, &m->flat);
		add_text(out, "]");
		add_buffer(out, &m->nested);
	} else if (m->nested.size > 0) { /* all alternatives have to be of one length within a look-behind */
		buffer_add(out, m->nested.data + 1, m->nested.size - 1);
	} else {
		add_text(out, "(?!)");
	}
	if (m->nested.size > 0)
		add_text(out, ")");
	out->failed |= m->flat.failed || m->nested.failed;
	m->flat.size = m->nested.size = 0;
}

static bool add_class(struct dialect_translation*, struct buffer* out, int depth);

static bool add_nested(struct dialect_translation* t, struct members* m, int depth) {
	if (peek_byte(t, 1) == ':')
		return add_bracket(t, m);
	add_text(&m->nested, "|");
	return add_class(t, &m->nested, depth + 1);
}

/* Reads the members up to the closing bracket. All parts of an intersection but the last go to `ahead`. */
static bool read_members(struct dialect_translation* t, struct members* m, struct buffer* ahead, int depth) {
	for (bool first = true;; first = false) {
		const char c = peek_byte(t, 0);
		if (t->at >= t->size)
			return refuse_pattern(t, "a class is not closed");
		if (c == ']' && !first)
			return true;
		if (c == '[') {
			if (!add_nested(t, m, depth))
				return false;
		} else if (c == '\\') {
			if (!add_escaped_member(t, m))
				return false;
		} else if (c == '&' && peek_byte(t, 1) == '&') {
			add_text(ahead, "(?=");
			close_members(m, ahead);
			add_text(ahead, ")");
			t->at += 2;
		} else {
			add_text(&m->flat, c == ']' || (c == '^' && m->flat.size == 0) ? "\\" : "");
			buffer_add(&m->flat, &c, 1);
			t->at++;
		}
	}
}

/* [^…] of members alone. */
static void negate_members(struct members* m, struct buffer* out) {
	add_text(out, "[^");
	add_buffer(out, &m->flat);
	add_text(out, "]");
}

/* A class, at its opening bracket. */
static bool add_class(struct dialect_translation* t, struct buffer* out, int depth) {
	struct members m = {0};
	struct buffer ahead = {0};
	const bool negated = peek_byte(t, 1) == '^';
	if (depth == MAX_NESTING)
		return refuse_pattern(t, "classes are nested too deep");
	t->at += 1 + negated;
	const bool good = read_members(t, &m, &ahead, depth);
	t->at++;
	if (negated && m.flat.size > 0 && m.nested.size == 0 && ahead.size == 0) {
		negate_members(&m, out);
	} else {
		const bool group = negated || ahead.size > 0;
		add_text(out, negated ? "(?:(?!" : group ? "(?:" : "");
		add_buffer(out, &ahead);
		close_members(&m, out);
		add_text(out, negated ? ")(?s:.))" : group ? ")" : "");
	}
	out->failed |= m.flat.failed || m.nested.failed;
	buffer_free(&m.flat);
	buffer_free(&m.nested);
	buffer_free(&ahead);
	return good;
}

/* ---- groups ----------------------------------------------------------------------------------- */

static void insert_text(struct buffer* out, size_t place, const char* text) {
	const size_t n = strlen(text), behind = out->size - place;
	add_text(out, text);
	if (out->failed)
		return;
	memmove(out->data + place + n, out->data + place, behind);
	memcpy(out->data + place, text, n);
}

/* Reads the letters of options up to ':' or ')': (?m) lets a dot match line feeds, and (?x) is obeyed here.
 */
static bool read_options(struct dialect_translation* t, struct buffer* out, bool* spaced) {
	bool on = true;
	add_text(out, "(?");
	for (; peek_byte(t, 0) != ':' && peek_byte(t, 0) != ')'; t->at++) {
		const char c = peek_byte(t, 0);
		if (c == 'x')
			*spaced = on;
		else if (c == '-' && on)
			on = false;
		else if (c != 'i' && c != 'm')
			return refuse_pattern(t, "this option of a group is not supported");
		if (c != 'x')
			buffer_add(out, c == 'm' ? "s" : &c, 1);
	}
	add_text(out, ":");
	return true;
}

static bool is_option(char c) { return c == 'i' || c == 'm' || c == 'x' || c == '-' || is_letter(c); }

static bool open_group(struct dialect_translation* t, struct buffer* out) {
	static const char* const known[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?<", "(?'"};
	const struct dialect_group* const outer = &t->group[t->depth];
	if (peek_byte(t, 1) == '*')
		return refuse_pattern(t, "callouts are not supported");
	if (peek_byte(t, 1) == '?' && peek_byte(t, 2) == '#') { /* a comment */
		const char* const close = memchr(t->pattern + t->at, ')', t->size - t->at);
		if (!close)
			return refuse_pattern(t, "a comment is not closed");
		t->at = (size_t)(close + 1 - t->pattern);
		return true;
	}
	if (t->depth + 1 == MAX_GROUPS)
		return refuse_pattern(t, "groups are nested too deep");
	struct dialect_group* const inner = &t->group[t->depth + 1];
	*inner = (struct dialect_group){.start = out->size, .spaced = outer->spaced};
	t->atom = NOTHING;
	if (peek_byte(t, 1) != '?') {
		add_text(out, "(");
		t->at++;
		t->depth++;
		return true;
	}
	if (is_option(peek_byte(t, 2))) {
		t->at += 2;
		if (!read_options(t, out, &inner->spaced))
			return false;
		if (peek_byte(t, 0) ==
		    ')') { /* holds up to the end of the group that it is in, over all its alternatives */
			t->group[t->depth].closings++;
			t->group[t->depth].spaced = inner->spaced;
		} else {
			t->depth++;
		}
		t->at++;
		return true;
	}
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		const size_t n = strlen(known[i]);
		if (t->size - t->at < n || memcmp(t->pattern + t->at, known[i], n) != 0)
			continue;
		add_text(out, known[i]);
		t->at += n;
		t->depth++;
		return true;
	}
	return refuse_pattern(t, "this kind of group is not supported");
}

static void close_group(struct dialect_translation* t, struct buffer* out) {
	for (int i = 0; i < t->group[t->depth].closings; i++)
		add_text(out, ")");
	t->group[t->depth].closings = 0;
}

/* ---- repetition ------------------------------------------------------------------------------- */

/* An interval's length, or 0 where a brace stands for itself. */
static size_t interval_at(const struct dialect_translation* t, bool* exact) {
	const char* const text = t->pattern + t->at + 1; /* pattern[size] is 0 */
	const size_t low = strspn(text, "0123456789");
	const bool comma = text[low] == ',';
	const size_t high = comma ? strspn(text + low + 1, "0123456789") : 0;
	*exact = !comma;
	return low + high > 0 && text[low + comma + high] == '}' ? low + comma + high + 2 : 0;
}

/* Repeats what was added last. Behind an interval, + repeats once more, and behind {n}, ? makes it optional.
 */
static bool add_repetition(struct dialect_translation* t, struct buffer* out) {
	const char c = peek_byte(t, 0);
	bool exact = false;
	const size_t length = c == '{' ? interval_at(t, &exact) : 1;
	if (t->atom == NOTHING)
		return refuse_pattern(t, "a repetition has nothing before it to repeat");
	if (t->repeated) {
		insert_text(out, t->atom, "(?:");
		add_text(out, ")");
	}
	if (c == '{' && peek_byte(t, 1) == ',') { /* which PCRE2 learned late */
		add_text(out, "{0");
		buffer_add(out, t->pattern + t->at + 1, length - 1);
	} else {
		buffer_add(out, t->pattern + t->at, length);
	}
	t->at += length;
	const char more = peek_byte(t, 0);
	if ((more == '?' && !exact) || (more == '+' && c != '{')) {
		buffer_add(out, &more, 1);
		t->at++;
	}
	t->repeated = true;
	return true;
}

/* ---- the whole -------------------------------------------------------------------------------- */

/* One character that stands for itself, a dot, an anchor or a bar. */
static void add_plain(struct dialect_translation* t, struct buffer* out) {
	const char c = peek_byte(t, 0);
	size_t length = utf8_character(t->pattern + t->at, t->size - t->at, NULL);
	length = length ? length : 1;
	t->atom = c == '|' ? NOTHING : out->size;
	add_text(out, c == '{' || c == '}' ? "\\" : "");
	buffer_add(out, t->pattern + t->at, length);
	t->at += length;
}

static bool add_next(struct dialect_translation* t, struct buffer* out) {
	const char c = peek_byte(t, 0);
	const size_t before = out->size;
	bool exact;
	if (c == '*' || c == '+' || c == '?' || (c == '{' && interval_at(t, &exact)))
		return add_repetition(t, out);
	if (c == '(')
		return open_group(t, out);
	if (t->group[t->depth].spaced && strchr(" \t\n\v\f\r#", c)) {
		const char* const end = c == '#' ? memchr(t->pattern + t->at, '\n', t->size - t->at) : NULL;
		t->at = c != '#' ? t->at + 1 : end ? (size_t)(end - t->pattern) : t->size;
		return true;
	}
	t->repeated = false;
	if (c == ')') {
		close_group(t, out);
		t->atom = t->group[t->depth].start;
		if (t->depth == 0)
			return refuse_pattern(t, "a closing parenthesis has no opening one");
		t->depth--;
		add_text(out, ")");
		t->at++;
		return true;
	}
	if (c == '\\' || c == '[') {
		t->atom = before;
		return c == '[' ? add_class(t, out, 0) : add_escape(t, out);
	}
	add_plain(t, out);
	return true;
}

bool expression_translate(const char* pattern, size_t size, struct buffer* out, struct error* error) {
	struct dialect_translation t = {.pattern = pattern, .size = size, .atom = NOTHING, .error = error};
	while (t.at < size)
		if (!add_next(&t, out))
			return false;
	if (t.depth == 0)
		close_group(&t, out);
	return t.depth == 0 || expression_refuse(pattern, size, "a parenthesis is not closed", error);
}
