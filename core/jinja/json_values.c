/* JSON to values and back, as Python's json module does it: whole numbers stay whole, members keep their
 * order. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jinja/node.h"

/* ---- reading ------------------------------------------------------------------------------ */

struct reader {
	struct parser parser;
	const char *trusted_member, *trusted_words;
};

static struct value read_value(struct reader*, bool trusted);

static struct value read_list(struct reader* r) {
	struct parser* const p = &r->parser;
	struct value list = value_list(p->machine, LIST);
	if (parser_take(p, CLOSE_LIST))
		return list;
	do
		list_add(p->machine, list.list, read_value(r, false));
	while (parser_take(p, COMMA));
	parser_want(p, CLOSE_LIST, "a comma or ]");
	return list;
}

static struct value read_text(struct reader* r, bool trusted) {
	struct machine* const m = r->parser.machine;
	struct string s = *r->parser.token.text;
	if (!trusted || !string_among(&s, r->trusted_words))
		s.mark = memset(machine_alloc(m, s.size), 1, s.size);
	parser_next(&r->parser);
	return value_string(machine_new(m, &s, sizeof s));
}

static struct value read_object(struct reader* r) {
	struct parser* const p = &r->parser;
	struct value object = value_dict(p->machine);
	if (parser_take(p, CLOSE_DICT))
		return object;
	do {
		if (p->token.kind != TOKEN_STRING)
			parser_fail(p, "a member's name");
		const struct value key = read_text(r, false);
		parser_want(p, COLON, "a colon");
		const bool trusted = r->trusted_member && string_is(key.string, r->trusted_member);
		dict_set(p->machine, object.dict, key, read_value(r, trusted));
	} while (parser_take(p, COMMA));
	parser_want(p, CLOSE_DICT, "a comma or }");
	return object;
}

static struct value read_value(struct reader* r, bool trusted) {
	struct parser* const p = &r->parser;
	const struct token t = p->token;
	machine_charge(p->machine, 0);
	if (t.kind == TOKEN_STRING)
		return read_text(r, trusted);
	if (parser_take(p, OPEN_LIST))
		return read_list(r);
	if (parser_take(p, OPEN_DICT))
		return read_object(r);
	const bool word = t.kind == TOKEN_NAME && string_among(t.text, "true false null");
	if (!word && t.kind != TOKEN_INTEGER && t.kind != TOKEN_FLOAT)
		parser_fail(p, "a value");
	parser_next(p);
	return !word                       ? t.number
	       : string_is(t.text, "null") ? value_none()
	                                   : value_boolean(string_is(t.text, "true"));
}

struct value json_value(struct machine* m, const char* text, size_t size, const char* what,
                        const char* trusted_member, const char* trusted_words) {
	const int line = m->line;
	struct reader r = {.trusted_member = trusted_member, .trusted_words = trusted_words};
	struct parser* const p = &r.parser;
	p->machine = m;
	p->lexer = (struct lexer){.machine = m,
	                          .source = text,
	                          .size = size,
	                          .line = 1,
	                          .inside = true,
	                          .in_print = true,
	                          .json = true};
	m->reading = what;
	p->ahead = lexer_next(&p->lexer);
	parser_next(p);
	const struct value v = read_value(&r, false);
	if (p->token.kind != TOKEN_END)
		parser_fail(p, "the end");
	m->reading = NULL;
	m->line = line;
	return v;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void write_unit(struct builder* b, unsigned unit, bool foreign) {
	char text[8];
	snprintf(text, sizeof text, "\\u%04x", unit);
	builder_add(b, text, 6, foreign);
}

static void write_character(struct builder* b, uint32_t code, bool foreign) {
	static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
	const char* const found = code && code < 0x80 ? strchr(from, (int)code) : NULL;
	if (found) {
		const char text[2] = {'\\', to[found - from]};
		builder_add(b, text, 2, foreign);
	} else if (code >= 0x10000 && code <= 0x10FFFF) {
		write_unit(b, 0xD800 + ((code - 0x10000) >> 10), foreign);
		write_unit(b, 0xDC00 + ((code - 0x10000) & 0x3FF), foreign);
	} else {
		write_unit(b, code > 0x10FFFF ? 0xFFFD : code, foreign);
	}
}

static void write_string(struct builder* b, const struct string* s, bool ascii) {
	builder_words(b, "\"");
	uint32_t code;
	size_t kept = 0, at = 0;
	while (at < s->size) {
		const size_t length = string_character(s, at, &code);
		if (code < 0x20 || code == '"' || code == '\\' || (ascii && code > 0x7E)) {
			builder_part(b, s, kept, at);
			write_character(b, code, string_foreign_at(s, at));
			kept = at + length;
		}
		at += length;
	}
	builder_part(b, s, kept, at);
	builder_words(b, "\"");
}

static void new_line(struct builder* b, const struct json_style* style, int level) {
	if (!style->indent)
		return;
	builder_words(b, "\n");
	for (int i = 0; i < level; i++)
		builder_string(b, style->indent);
}

static void write_at(struct builder*, struct value, const struct json_style*, int level);

static void write_list(struct builder* b, const struct list* list, const struct json_style* style,
                       int level) {
	builder_words(b, "[");
	for (int i = 0; i < list->n; i++) {
		if (i)
			builder_string(b, style->comma);
		new_line(b, style, level + 1);
		write_at(b, list->item[i], style, level + 1);
	}
	if (list->n)
		new_line(b, style, level);
	builder_words(b, "]");
}

static void write_key(struct builder* b, struct value key, bool ascii) {
	if (key.kind == STRING) {
		write_string(b, key.string, ascii);
		return;
	}
	if (key.kind == TUPLE)
		machine_fail(b->machine, "keys must be str, int, float, bool or None, not tuple");
	static const struct json_style plain = {0};
	builder_words(b, "\"");
	write_at(b, key, &plain, 0);
	builder_words(b, "\"");
}

/* By insertion: members are few, and every move is a step. */
static const struct entry* sorted(struct machine* m, const struct dict* d) {
	struct entry* const entry = machine_alloc(m, (size_t)d->n * sizeof *entry);
	for (int i = 0; i < d->n; i++) {
		int at = i;
		for (; at > 0 && value_order(m, d->entry[i].key, entry[at - 1].key, "<") < 0; at--) {
			machine_charge(m, sizeof *entry);
			entry[at] = entry[at - 1];
		}
		entry[at] = d->entry[i];
	}
	return entry;
}

static void write_dict(struct builder* b, const struct dict* d, const struct json_style* style, int level) {
	const struct entry* const entry = style->sort ? sorted(b->machine, d) : d->entry;
	builder_words(b, "{");
	for (int i = 0; i < d->n; i++) {
		if (i)
			builder_string(b, style->comma);
		new_line(b, style, level + 1);
		write_key(b, entry[i].key, style->ascii);
		builder_string(b, style->colon);
		write_at(b, entry[i].value, style, level + 1);
	}
	if (d->n)
		new_line(b, style, level);
	builder_words(b, "}");
}

static void write_at(struct builder* b, struct value v, const struct json_style* style, int level) {
	machine_enter(b->machine);
	if (v.kind == NONE)
		builder_words(b, "null");
	else if (v.kind == BOOLEAN)
		builder_words(b, v.boolean ? "true" : "false");
	else if (v.kind == FLOAT && !isfinite(v.number))
		builder_words(b, isnan(v.number) ? "NaN" : v.number < 0 ? "-Infinity" : "Infinity");
	else if (value_is_number(v))
		value_write_repr(b, v);
	else if (v.kind == STRING)
		write_string(b, v.string, style->ascii);
	else if (v.kind == LIST || v.kind == TUPLE)
		write_list(b, v.list, style, level);
	else if (v.kind == DICT)
		write_dict(b, v.dict, style, level);
	else
		machine_fail(b->machine, "Object of type %s is not JSON serializable", value_type(v));
	machine_leave(b->machine);
}

void value_write_json(struct builder* b, struct value v, const struct json_style* style) {
	write_at(b, v, style, 0);
}
