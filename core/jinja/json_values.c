/* JSON to values, as Python's json module does it: whole numbers stay whole, members keep their order. */
#include <string.h>

#include "core/jinja/node.h"

struct json_reader {
	struct parser parser;
	const char *trusted_member, *trusted_words;
};

static struct value read_value(struct json_reader*, bool trusted);

static struct value read_list(struct json_reader* r) {
	struct parser* const p = &r->parser;
	struct value list = value_list(p->machine, LIST);
	if (parser_take(p, "]"))
		return list;
	do
		list_add(p->machine, list.list, read_value(r, false));
	while (parser_take(p, ","));
	parser_want(p, "]", "a comma or ]");
	return list;
}

static struct value read_text(struct json_reader* r, bool trusted) {
	struct machine* const m = r->parser.machine;
	struct string s = *r->parser.token.text;
	if (!trusted || !string_among(&s, r->trusted_words))
		s.mark = memset(machine_alloc(m, s.size), 1, s.size);
	parser_next(&r->parser);
	return value_string(machine_new(m, &s, sizeof s));
}

static struct value read_object(struct json_reader* r) {
	struct parser* const p = &r->parser;
	struct value object = value_dict(p->machine);
	if (parser_take(p, "}"))
		return object;
	do {
		if (p->token.kind != TOKEN_STRING)
			parser_fail(p, "a member's name");
		const struct value key = read_text(r, false);
		parser_want(p, ":", "a colon");
		const bool trusted = r->trusted_member && string_is(key.string, r->trusted_member);
		dict_set(p->machine, object.dict, key, read_value(r, trusted));
	} while (parser_take(p, ","));
	parser_want(p, "}", "a comma or }");
	return object;
}

static struct value read_value(struct json_reader* r, bool trusted) {
	struct parser* const p = &r->parser;
	const struct token t = p->token;
	machine_charge(p->machine, 0);
	if (t.kind == TOKEN_STRING)
		return read_text(r, trusted);
	if (parser_take(p, "["))
		return read_list(r);
	if (parser_take(p, "{"))
		return read_object(r);
	const bool word = t.kind == TOKEN_NAME && string_among(t.text, "true false null");
	if (!word && t.kind != TOKEN_NUMBER)
		parser_fail(p, "a value");
	parser_next(p);
	return !word                       ? t.number
	       : string_is(t.text, "null") ? value_none()
	                                   : value_boolean(string_is(t.text, "true"));
}

struct value json_value(struct machine* m, const char* text, size_t size, const char* what,
                        const char* trusted_member, const char* trusted_words) {
	const int line = m->line;
	struct json_reader r = {.trusted_member = trusted_member, .trusted_words = trusted_words};
	struct parser* const p = &r.parser;
	p->machine = m;
	p->lexer = lexer_start_json(m, text, size);
	m->reading = what;
	p->ahead = lexer_next(&p->lexer);
	parser_next(p);
	const struct value v = read_value(&r, false);
	parser_want_kind(p, TOKEN_END, "the end");
	m->reading = NULL;
	m->line = line;
	return v;
}
