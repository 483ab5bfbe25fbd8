/* Rewrites Oniguruma's regular expressions for PCRE2.
 *
 * A class stays a PCRE2 class if it is a list of members. Nested classes, negated members and intersections
 * become alternatives and look-aheads that match one character. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

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

enum { MAX_NESTING = 16 };

struct dialect_translation {
	const char* pattern;
	size_t size, at;
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

static bool refuse(const struct dialect_translation* t, const char* why) {
	return expression_refuse(t->pattern + t->at, t->size - t->at, why, t->error);
}

static char at(const struct dialect_translation* t, size_t ahead) {
	return t->size - t->at > ahead ? t->pattern[t->at + ahead] : 0;
}

/* ---- escapes ---------------------------------------------------------------------------------- */

/* \p{Han} means characters whose Script is Han. PCRE2 would match those whose Script_Extensions contain
 * it. */
static bool is_script(const char* name, size_t size) {
	char pattern[64];
	int code;
	PCRE2_SIZE offset;
	const int length = snprintf(pattern, sizeof pattern, "\\p{sc:%.*s}", (int)size, name);
	if (length < 0 || length >= (int)sizeof pattern || memchr(name, ':', size) || memchr(name, '=', size))
		return false;
	pcre2_code* const compiled =
	    pcre2_compile((PCRE2_SPTR)pattern, (size_t)length, PCRE2_UTF, &code, &offset, NULL);
	pcre2_code_free(compiled);
	return compiled;
}

/* \p{…} or \P{…}, at the backslash. */
static bool add_property(struct dialect_translation* t, struct buffer* out) {
	const char* const open = t->pattern + t->at;
	const char* const close = memchr(open, '}', t->size - t->at);
	if (at(t, 2) != '{' || !close) {
		buffer_add(out, open, 2);
		t->at += 2;
		return true;
	}
	const bool not_it = open[3] == '^';
	const char* const name = open + 3 + not_it;
	const size_t size = (size_t)(close - name);
	add_text(out, not_it == (open[1] == 'P') ? "\\p{" : "\\P{");
	if (is_script(name, size))
		add_text(out, "sc:");
	buffer_add(out, name, size);
	add_text(out, "}");
	t->at = (size_t)(close + 1 - t->pattern);
	return true;
}

/* \uHHHH */
static bool add_code(struct dialect_translation* t, struct buffer* out) {
	char code[16];
	for (size_t i = 2; i < 6; i++)
		if (hexadecimal_digit(at(t, i)) < 0)
			return refuse(t, "\\u is not followed by four hexadecimal digits");
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

/* Rewrites an escape that means the same in and outside of classes; done: it was one. */
static bool add_common(struct dialect_translation* t, struct buffer* out, bool* done) {
	const char letter = at(t, 1);
	*done = true;
	if (!letter)
		return refuse(t, "nothing is escaped");
	if (letter == 'p' || letter == 'P')
		return add_property(t, out);
	if (letter == 'u')
		return add_code(t, out);
	*done = false;
	return true;
}

static bool add_escape(struct dialect_translation* t, struct buffer* out) {
	const char letter = at(t, 1);
	const char* const set = set_of(letter);
	bool done;
	if (!add_common(t, out, &done))
		return false;
	if (done)
		return true;
	if (set) {
		add_text(out, letter & 0x20 ? "[" : "[^");
		add_text(out, (letter | 0x20) == 'w' ? BARE : set);
		add_text(out, "]");
	} else if (letter == 'b') {
		add_text(out, "(?:(?<=" IS ")(?!" IS ")|(?<!" IS ")(?=" IS "))");
	} else if (letter == 'B') {
		add_text(out, "(?:(?<=" IS ")(?=" IS ")|(?<!" IS ")(?!" IS "))");
	} else if (letter == 'v') {
		add_text(out, "\\x{0b}");
	} else {
		buffer_add(out, t->pattern + t->at, 2);
	}
	t->at += 2;
	return true;
}

/* ---- classes ---------------------------------------------------------------------------------- */

static void add_member(struct members* m, const char* set, bool negated) {
	if (negated)
		add_text(&m->nested, "|[^");
	add_text(negated ? &m->nested : &m->flat, set);
	if (negated)
		add_text(&m->nested, "]");
}

static bool add_escaped_member(struct dialect_translation* t, struct members* m) {
	const char letter = at(t, 1);
	bool done;
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

static const struct {
	const char *name, *set; /* behind a ^: what is not in it */
} brackets[] = {{"alnum", "\\p{Alphabetic}\\p{Nd}"},
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

/* [:alpha:] or [:^alpha:]. */
static bool add_bracket(struct dialect_translation* t, struct members* m) {
	const bool negated = at(t, 2) == '^';
	const char* const name = t->pattern + t->at + 2 + negated;
	for (size_t i = 0; i < sizeof brackets / sizeof *brackets; i++) {
		const size_t size = strlen(brackets[i].name);
		if (strncmp(name, brackets[i].name, size) != 0 || strncmp(name + size, ":]", 2) != 0)
			continue;
		const char* const set = brackets[i].set;
		add_member(m, *set == '^' ? set + 1 : set, negated != (*set == '^'));
		t->at = (size_t)(name + size + 2 - t->pattern);
		return true;
	}
	return refuse(t, "this class of characters is not supported");
}

/* Matches one of the members. */
static void close_members(struct members* m, struct buffer* out) {
	if (m->nested.size > 0)
		add_text(out, "(?:");
	if (m->flat.size > 0) {
		add_text(out, "[");
		add_buffer(out, &m->flat);
		add_text(out, "]");
	} else {
		add_text(out, "(?!)");
	}
	add_buffer(out, &m->nested);
	if (m->nested.size > 0)
		add_text(out, ")");
	out->failed |= m->flat.failed || m->nested.failed;
	m->flat.size = m->nested.size = 0;
}

static bool add_class(struct dialect_translation*, struct buffer* out, int depth);

static bool add_nested(struct dialect_translation* t, struct members* m, int depth) {
	if (at(t, 1) == ':')
		return add_bracket(t, m);
	add_text(&m->nested, "|");
	return add_class(t, &m->nested, depth + 1);
}

/* Reads the members up to the closing bracket. All parts of an intersection but the last go to `ahead`. */
static bool read_members(struct dialect_translation* t, struct members* m, struct buffer* ahead, int depth) {
	for (bool first = true;; first = false) {
		const char c = at(t, 0);
		if (t->at >= t->size)
			return refuse(t, "a class is not closed");
		if (c == ']' && !first)
			return true;
		if (c == '[') {
			if (!add_nested(t, m, depth))
				return false;
		} else if (c == '\\') {
			if (!add_escaped_member(t, m))
				return false;
		} else if (c == '&' && at(t, 1) == '&') {
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
static void negate(struct members* m, struct buffer* out) {
	add_text(out, "[^");
	add_buffer(out, &m->flat);
	add_text(out, "]");
}

/* A class, at its opening bracket. */
static bool add_class(struct dialect_translation* t, struct buffer* out, int depth) {
	struct members m = {0};
	struct buffer ahead = {0};
	const bool negated = at(t, 1) == '^';
	if (depth == MAX_NESTING)
		return refuse(t, "classes are nested too deep");
	t->at += 1 + negated;
	const bool good = read_members(t, &m, &ahead, depth);
	t->at++;
	if (negated && m.flat.size > 0 && m.nested.size == 0 && ahead.size == 0) {
		negate(&m, out);
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

/* ---- the whole -------------------------------------------------------------------------------- */

bool expression_translate(const char* pattern, size_t size, struct buffer* out, struct error* error) {
	struct dialect_translation t = {.pattern = pattern, .size = size, .error = error};
	while (t.at < size) {
		const char c = pattern[t.at];
		if (c == '\\' ? !add_escape(&t, out) : c == '[' && !add_class(&t, out, 0))
			return false;
		if (c == '\\' || c == '[')
			continue;
		buffer_add(out, &c, 1);
		t.at++;
	}
	return true;
}
