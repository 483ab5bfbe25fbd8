/* One state machine over bytes. Each state has a function that returns whether it took the byte. */
#include "streams/service/json_repair.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void flush_held(struct json_repair* r, struct text* out) {
	text_add(out, r->held.data, r->held.size);
	text_clear(&r->held);
}

/* A value or a name has ended. */
static void after_item(struct json_repair* r) {
	r->state = r->key ? REPAIR_COLON : r->depth ? REPAIR_AFTER : REPAIR_DONE;
	r->key = false;
}

static char innermost_opener(const struct json_repair* r) { return r->depth ? r->open[r->depth - 1] : 0; }

static void close_one(struct json_repair* r, struct text* out) {
	text_put(out, innermost_opener(r) == '{' ? "}" : "]");
	r->depth--;
	r->key = false;
	after_item(r);
}

/* ---- words: numbers, true, false, null, and what should have been in quotes ------------------------ */

static bool is_number(const char* text, size_t n) {
	struct error ignored;
	return n > 0 && (text[0] == '-' || isdigit((unsigned char)text[0])) && json_check(text, n, &ignored);
}

/* The word in JSON's spelling; NULL: it is not a word of JSON or Python. */
static const char* word_of(const char* text, size_t n) {
	static const char* const words[][2] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
	                                       {"True", "true"}, {"False", "false"}, {"None", "null"}};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strlen(words[i][0]) == n && memcmp(words[i][0], text, n) == 0)
			return words[i][1];
	return NULL;
}

static bool is_known(const struct json_repair* r) {
	return !r->key && (is_number(r->held.data, r->held.size) || word_of(r->held.data, r->held.size));
}

static void end_word(struct json_repair* r, struct text* out) {
	size_t n = r->held.size;
	while (n > 0 && is_space(r->held.data[n - 1]))
		n--;
	const char* word = r->key ? NULL : word_of(r->held.data, n);
	if (word)
		text_put(out, word);
	else if (!r->key && is_number(r->held.data, n))
		text_add(out, r->held.data, n);
	else
		text_quote(out, r->held.data ? r->held.data : "", n);
	text_clear(&r->held);
	after_item(r);
}

static bool take_word(struct json_repair* r, char c, struct text* out) {
	const bool ends = c && strchr(r->python ? ",]})\n" : ",]}\n", c); /* a NUL byte is a part of a word */
	if (ends || (r->key && c == ':') || (is_space(c) && is_known(r))) {
		end_word(r, out);
		return false;
	}
	text_add(&r->held, &c, 1);
	return true;
}

/* ---- strings ------------------------------------------------------------------------------------- */

static bool take_string(struct json_repair* r, char c, struct text* out) {
	static const char* const named[] = {
	    ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f", ['\r'] = "\\r"};
	const unsigned char byte = (unsigned char)c;
	if (c == r->quote) {
		text_put(out, "\"");
		after_item(r);
	} else if (c == '\\') {
		text_put(&r->held, "\\");
		r->state = REPAIR_ESCAPE;
	} else if (byte < 0x20 && byte < sizeof named / sizeof *named && named[byte])
		text_put(out, named[byte]);
	else if (byte < 0x20)
		text_print(out, "\\u%04x", byte);
	else if (c == '"')
		text_put(out, "\\\"");
	else
		text_add(out, &c, 1);
	return true;
}

/* A backslash that begins no escape stands for itself. */
static void no_escape(struct json_repair* r, struct text* out) {
	text_put(out, "\\");
	flush_held(r, out);
	r->state = REPAIR_STRING;
}

/* An escape that only Python has: a single quote, or \xXX. False: it is another one. */
static bool take_python_escape(struct json_repair* r, char c, struct text* out) {
	enum { WHOLE = 4 };
	const bool begins = r->held.size == 1;
	if (begins && c == '\'') {
		text_put(out, "'");
		text_clear(&r->held);
		r->state = REPAIR_STRING;
		return true;
	}
	if (begins ? c != 'x' : r->held.data[1] != 'x' || !isxdigit((unsigned char)c))
		return false;
	text_add(&r->held, &c, 1);
	if (r->held.size == WHOLE) {
		text_print(out, "\\u00%s", r->held.data + 2);
		text_clear(&r->held);
		r->state = REPAIR_STRING;
	}
	return true;
}

static bool take_escape(struct json_repair* r, char c, struct text* out) {
	enum { WHOLE = 6 }; /* \uXXXX */
	const bool begins = r->held.size == 1;
	if (r->python && take_python_escape(r, c, out))
		return true;
	if (begins ? !c || !strchr("\"\\/bfnrtu", c) : !isxdigit((unsigned char)c)) {
		no_escape(r, out);
		return false;
	}
	text_add(&r->held, &c, 1);
	if ((begins && c != 'u') || r->held.size == WHOLE) {
		flush_held(r, out);
		r->state = REPAIR_STRING;
	}
	return true;
}

/* ---- values -------------------------------------------------------------------------------------- */

static bool begin_item(struct json_repair* r, char c, struct text* out) {
	flush_held(r, out); /* a comma before it */
	if (c == '"' || (c == '\'' && r->python)) {
		text_put(out, "\"");
		r->quote = c;
		r->state = REPAIR_STRING;
		return true;
	}
	c = c == '(' && r->python ? '[' : c;
	if ((c == '{' || c == '[') && !r->key && r->depth < JSON_REPAIR_DEPTH) {
		text_add(out, &c, 1);
		r->open[r->depth++] = c;
		r->state = c == '{' ? REPAIR_KEY : REPAIR_VALUE;
		r->key = c == '{';
		return true;
	}
	r->state = REPAIR_WORD;
	return false;
}

static bool is_closing(const struct json_repair* r, char c) {
	return (c == '}' || c == ']' || (c == ')' && r->python)) && r->depth > 0;
}

/* Closes the innermost object or array of this kind and all that is open inside. Does nothing when none is
 * open. */
static void close_with(struct json_repair* r, char c, struct text* out) {
	const char opener = c == '}' ? '{' : '[';
	int depth = r->depth;
	while (depth > 0 && r->open[depth - 1] != opener)
		depth--;
	if (depth > 0)
		text_clear(&r->held); /* a comma too many */
	while (depth > 0 && r->depth >= depth)
		close_one(r, out);
}

static bool take_value(struct json_repair* r, char c, struct text* out) {
	if (is_space(c)) {
		text_add(r->held.size ? &r->held : out, &c, 1);
		return true;
	}
	if (is_closing(r, c) && (r->key || innermost_opener(r) == '[')) {
		close_with(r, c, out);
		return true;
	}
	if (c == ',' && r->depth > 0 && (r->key || innermost_opener(r) == '['))
		return true;
	if ((is_closing(r, c) || c == ',') && innermost_opener(r) == '{') { /* a name without a value */
		text_put(out, "null");
		after_item(r);
		return false;
	}
	return begin_item(r, c, out);
}

static bool take_colon(struct json_repair* r, char c, struct text* out) {
	if (is_space(c)) {
		text_add(out, &c, 1);
		return true;
	}
	text_put(out, ":");
	r->state = REPAIR_VALUE;
	return c == ':';
}

static bool take_after(struct json_repair* r, char c, struct text* out) {
	if (is_space(c)) {
		text_add(out, &c, 1);
		return true;
	}
	if (is_closing(r, c)) {
		close_with(r, c, out);
		return true;
	}
	text_put(&r->held, ",");
	r->key = innermost_opener(r) == '{';
	r->state = r->key ? REPAIR_KEY : REPAIR_VALUE;
	return c == ',' || c == ';';
}

static bool take_byte(struct json_repair* r, char c, struct text* out) {
	switch (r->state) {
	case REPAIR_STRING:
		return take_string(r, c, out);
	case REPAIR_ESCAPE:
		return take_escape(r, c, out);
	case REPAIR_WORD:
		return take_word(r, c, out);
	case REPAIR_COLON:
		return take_colon(r, c, out);
	case REPAIR_AFTER:
		return take_after(r, c, out);
	default:
		return take_value(r, c, out);
	}
}

size_t json_repair_add(struct json_repair* r, const char* bytes, size_t size, struct text* out) {
	size_t n = 0;
	while (n < size && r->state != REPAIR_DONE)
		n += take_byte(r, bytes[n], out);
	out->failed |= r->held.failed;
	return n;
}

void json_repair_close(struct json_repair* r, struct text* out) {
	if (r->state == REPAIR_ESCAPE)
		no_escape(r, out);
	if (r->state == REPAIR_STRING)
		(void)take_string(r, r->quote, out);
	if (r->state == REPAIR_WORD)
		end_word(r, out);
	if (r->state == REPAIR_COLON)
		(void)take_colon(r, ':', out);
	text_clear(&r->held);
	if (r->state == REPAIR_VALUE && innermost_opener(r) != '[') {
		text_put(out, "null");
		after_item(r);
	}
	while (r->depth > 0)
		close_one(r, out);
	r->state = REPAIR_DONE;
	out->failed |= r->held.failed;
}

void json_repair_free(struct json_repair* r) { text_free(&r->held); }
