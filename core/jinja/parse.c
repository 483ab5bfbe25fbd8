/* Parses statements, which stand between {% and %}, and the texts between tags. */
#include <string.h>

#include "core/jinja/library.h"

/* ---- the parser's hands ------------------------------------------------------------------- */

void parser_next(struct parser* p) {
	p->token = p->ahead;
	/* the token after a tag's end is the next text, which is read only when needed */
	p->ahead = p->token.kind == TOKEN_END ? p->token : lexer_next(&p->lexer);
	p->machine->line = p->token.line;
}

bool parser_at(const struct parser* p, const char* word) {
	return (p->token.kind == TOKEN_OPERATOR || p->token.kind == TOKEN_NAME) && string_is(p->token.text, word);
}

bool parser_take(struct parser* p, const char* word) {
	const bool here = parser_at(p, word);
	if (here)
		parser_next(p);
	return here;
}

void parser_fail(struct parser* p, const char* wanted) {
	static const char* const shown[] = {"text",   "{{",       "}}",       "{%", "%}",
	                                    "a name", "a string", "a number", "",   "the end"};
	const struct token* const t = &p->token;
	p->machine->line = t->line;
	if (t->kind == TOKEN_NAME || t->kind == TOKEN_OPERATOR)
		machine_fail(p->machine, "found '%.*s', expected %s", EXCERPT(t->text), wanted);
	machine_fail(p->machine, "found %s, expected %s", shown[t->kind], wanted);
}

void parser_want(struct parser* p, const char* word, const char* what) {
	if (!parser_take(p, word))
		parser_fail(p, what);
}

void parser_want_kind(struct parser* p, enum token_kind kind, const char* what) {
	if (p->token.kind != kind)
		parser_fail(p, what);
	parser_next(p);
}

const struct string* parser_want_name(struct parser* p, const char* what) {
	const struct string* const name = p->token.text;
	parser_want_kind(p, TOKEN_NAME, what);
	return name;
}

struct node* parser_node(struct parser* p, enum node_kind kind) {
	return MACHINE_NEW(p->machine, struct node, .kind = kind, .line = p->token.line);
}

void node_add(struct machine* m, struct node* n, const struct node* item) {
	n->item = machine_grow(m, n->item, &n->capacity, n->n + 1, sizeof *n->item);
	n->item[n->n++] = item;
}

void parser_nest(struct parser* p) {
	if (++p->nesting > MACHINE_NESTING)
		machine_fail(p->machine, "nested deeper than %d", MACHINE_NESTING);
}

static void want_end(struct parser* p) { parser_want_kind(p, TOKEN_BLOCK_END, "%}"); }

/* ---- bodies ------------------------------------------------------------------------------- */

static const struct node* parse_statement(struct parser*);

/* Parses up to a tag with one of these names, separated by blanks (NULL: up to the template's end). Stops at
 * the name. */
static const struct node* parse_body(struct parser* p, const char* until) {
	struct node* const body = parser_node(p, NODE_BODY);
	parser_nest(p);
	while (p->token.kind != TOKEN_END) {
		const struct token t = p->token;
		if (t.kind == TOKEN_TEXT || t.kind == TOKEN_PRINT) {
			struct node* const part = parser_node(p, t.kind == TOKEN_TEXT ? NODE_TEXT : NODE_PRINT);
			node_add(p->machine, body, part);
			part->name = t.text;
			parser_next(p);
			if (t.kind == TOKEN_PRINT) {
				part->a = parse_tuple(p, true, false);
				parser_want_kind(p, TOKEN_PRINT_END, "}}");
			}
		} else {
			parser_next(p);
			if (until && p->token.kind == TOKEN_NAME && string_among(p->token.text, until)) {
				p->nesting--;
				return body;
			}
			node_add(p->machine, body, parse_statement(p));
			want_end(p);
		}
	}
	if (until)
		machine_fail(p->machine, "the template ends without {%% %.*s %%}", (int)strcspn(until, " "), until);
	return body;
}

/* Parses the body of a statement with a scope of its own: from after `%}` to the end of the closing name. */
static const struct node* parse_inner(struct parser* p, const char* end) {
	want_end(p);
	const struct node* const body = parse_body(p, end);
	parser_next(p);
	return body;
}

/* ---- statements --------------------------------------------------------------------------- */

static const struct node* parse_if(struct parser* p) {
	struct node* const first = parser_node(p, NODE_IF);
	struct node* n = first;
	parser_next(p);
	for (;;) {
		n->a = parse_tuple(p, false, false);
		want_end(p);
		n->b = parse_body(p, "endif elif else");
		if (!parser_at(p, "elif"))
			break;
		struct node* const next = parser_node(p, NODE_IF);
		parser_next(p);
		n->c = next;
		n = next;
	}
	if (parser_take(p, "else")) {
		want_end(p);
		n->c = parse_body(p, "endif");
	}
	parser_next(p);
	return first;
}

static const struct node* parse_target(struct parser*, bool member);

/* A name, or with `member` also NAME.name. A list with commas is a tuple. */
static const struct node* parse_one_target(struct parser* p, bool member) {
	parser_nest(p);
	const struct node* target;
	if (parser_take(p, "(")) {
		target = parse_target(p, false);
		parser_want(p, ")", ")");
	} else {
		struct node* const name = parser_node(p, NODE_NAME);
		name->name = parser_want_name(p, "a name to set");
		if (member && parser_take(p, ".")) {
			struct node* const of = parser_node(p, NODE_TARGET_MEMBER);
			of->a = name;
			of->name = parser_want_name(p, "a name after the dot");
			target = of;
		} else {
			target = name;
		}
	}
	p->nesting--;
	return target;
}

static const struct node* parse_target(struct parser* p, bool member) {
	const struct node* const first = parse_one_target(p, member);
	if (!parser_at(p, ","))
		return first;
	struct node* const tuple = parser_node(p, NODE_TUPLE);
	node_add(p->machine, tuple, first);
	while (parser_take(p, ",")) {
		if (parser_at(p, "in") || parser_at(p, "=") || parser_at(p, ")"))
			break;
		node_add(p->machine, tuple, parse_one_target(p, member));
	}
	return tuple;
}

static const struct node* parse_for(struct parser* p) {
	struct node* const n = parser_node(p, NODE_FOR);
	parser_next(p);
	n->a = parse_target(p, false);
	if (!parser_take(p, "in"))
		parser_fail(p, "in");
	n->b = parse_tuple(p, false, false);
	if (parser_take(p, "if"))
		n->c = parse_expression(p, true);
	want_end(p);
	p->loops++;
	n->d = parse_body(p, "endfor else");
	p->loops--;
	if (parser_take(p, "else")) {
		want_end(p);
		n->e = parse_body(p, "endfor");
	}
	parser_next(p);
	return n;
}

/* The output of the body up to a tag of that name, through the filters before it. */
static const struct node* parse_written(struct parser* p, bool filtered, const char* end) {
	struct node* const written = parser_node(p, NODE_WRITTEN);
	const struct node* const value = parse_filters(p, written, filtered);
	written->a = parse_inner(p, end);
	return value;
}

static const struct node* parse_set(struct parser* p) {
	struct node* const n = parser_node(p, NODE_SET);
	parser_next(p);
	n->a = parse_target(p, true);
	if (parser_take(p, "=")) {
		n->b = parse_tuple(p, true, false);
		return n;
	}
	n->b = parse_written(p, false, "endset");
	return n;
}

/* (name, name=default, …) */
static void parse_signature(struct parser* p, struct node* macro) {
	parser_want(p, "(", "(");
	while (!parser_take(p, ")")) {
		if (macro->n)
			parser_want(p, ",", "a comma or )");
		struct node* const parameter = parser_node(p, NODE_NAME);
		parameter->name = parser_want_name(p, "a parameter's name");
		if (parser_take(p, "="))
			parameter->a = parse_expression(p, true);
		else if (macro->n && macro->item[macro->n - 1]->a)
			parser_fail(p, "a default, as the parameter before has one");
		node_add(p->machine, macro, parameter);
	}
}

static void parse_macro_body(struct parser* p, struct node* macro, const char* end) {
	const struct parser outer = *p;
	p->loops = 0;
	p->in_macro = true;
	p->uses_caller = false;
	macro->d = parse_inner(p, end);
	macro->flag = p->uses_caller;
	p->loops = outer.loops;
	p->in_macro = outer.in_macro;
	p->uses_caller = outer.uses_caller;
}

static const struct node* parse_macro(struct parser* p) {
	struct node* const macro = parser_node(p, NODE_MACRO);
	parser_next(p);
	macro->name = parser_want_name(p, "a macro's name");
	parse_signature(p, macro);
	parse_macro_body(p, macro, "endmacro");
	return macro;
}

/* {% call(parameters) macro(arguments) %}: the body is a macro, which the called macro knows as `caller`. */
static const struct node* parse_call_block(struct parser* p) {
	struct node* const body = parser_node(p, NODE_MACRO);
	struct node* const print = parser_node(p, NODE_PRINT);
	body->name = string_of(p->machine, "caller");
	parser_next(p);
	if (parser_at(p, "("))
		parse_signature(p, body);
	const struct node* const written = parse_expression(p, true);
	if (written->kind != NODE_CALL)
		parser_fail(p, "a call of a macro");
	struct node* const call = parser_node(p, NODE_CALL);
	struct node* const argument = parser_node(p, NODE_KEYWORD);
	call->a = written->a;
	for (int i = 0; i < written->n; i++)
		node_add(p->machine, call, written->item[i]);
	argument->name = body->name;
	argument->a = body;
	node_add(p->machine, call, argument);
	print->a = call;
	parse_macro_body(p, body, "endcall");
	return print;
}

static const struct node* parse_filter_block(struct parser* p) {
	struct node* const n = parser_node(p, NODE_PRINT);
	parser_next(p);
	n->a = parse_written(p, true, "endfilter");
	return n;
}

/* {% with %}, and {% generation %}, which is only a scope here. */
static const struct node* parse_with(struct parser* p) {
	const bool generation = parser_at(p, "generation");
	struct node* const n = parser_node(p, NODE_WITH);
	parser_next(p);
	while (!generation && p->token.kind != TOKEN_BLOCK_END) {
		if (n->n)
			parser_want(p, ",", "a comma or %}");
		node_add(p->machine, n, parse_target(p, false));
		parser_want(p, "=", "=");
		node_add(p->machine, n, parse_expression(p, true));
	}
	n->d = parse_inner(p, generation ? "endgeneration" : "endwith");
	return n;
}

static const struct node* parse_jump(struct parser* p) {
	struct node* const n = parser_node(p, parser_at(p, "break") ? NODE_BREAK : NODE_CONTINUE);
	if (!p->loops)
		parser_fail(p, "it within a loop");
	parser_next(p);
	return n;
}

/* Parses from the statement's name up to %}. */
static const struct node* parse_statement(struct parser* p) {
	static const struct {
		const char* name;
		const struct node* (*parse)(struct parser*);
	} known[] = {{"if", parse_if},        {"for", parse_for},         {"set", parse_set},
	             {"macro", parse_macro},  {"call", parse_call_block}, {"filter", parse_filter_block},
	             {"with", parse_with},    {"generation", parse_with}, {"break", parse_jump},
	             {"continue", parse_jump}};
	if (p->token.kind != TOKEN_NAME)
		parser_fail(p, "a tag's name");
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (string_is(p->token.text, known[i].name))
			return known[i].parse(p);
	machine_fail(p->machine, "the tag '%.*s' is not known here", EXCERPT(p->token.text));
}

/* ---- filters and tests -------------------------------------------------------------------- */

/* An unknown filter or test is an error at once, but within if and `a if b else c` (soft) only when it is
 * reached. */
static void check_known(struct machine* m, const struct node* n, bool soft) {
	machine_enter(m);
	for (; n; n = n->c) {
		m->line = n->line;
		if ((n->kind == NODE_FILTER || n->kind == NODE_TEST) && !n->table && !soft)
			library_fail(m, n->kind == NODE_FILTER ? FILTER : TEST, n->name);
		soft = soft || n->kind == NODE_IF || n->kind == NODE_CHOOSE;
		const struct node* const part[] = {n->a, n->b, n->d, n->e};
		for (int i = 0; i < 4; i++)
			check_known(m, part[i], soft);
		for (int i = 0; i < n->n; i++)
			check_known(m, n->item[i], soft);
	}
	machine_leave(m);
}

const struct node* parse(struct machine* m, const char* source, size_t size) {
	struct parser p = {.machine = m};
	p.lexer = lexer_start(m, source, size);
	p.ahead = lexer_next(&p.lexer);
	parser_next(&p);
	const struct node* const body = parse_body(&p, NULL);
	check_known(m, body, false);
	return body;
}
