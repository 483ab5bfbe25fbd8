/* Expressions, with Jinja's precedence: choice, or, and, not, comparison, + -, ~, * / // %, **, unary, then
 * subscripts, calls, filters and tests. */
#include "core/jinja/library.h"

static const struct node* parse_unary(struct parser*, bool filters);

static struct node* binary(struct parser* p, enum node_kind kind, const struct node* a) {
	struct node* const n = parser_node(p, kind);
	n->a = a;
	return n;
}

/* ---- the least ---------------------------------------------------------------------------- */

static const struct node* literal(struct parser* p, struct value v) {
	struct node* const n = parser_node(p, NODE_LITERAL);
	n->value = v;
	return n;
}

static const struct node* parse_name(struct parser* p) {
	struct node* const n = parser_node(p, NODE_NAME);
	n->name = p->token.text;
	if (string_among(n->name, "true True false False none None")) {
		const bool none = string_among(n->name, "none None");
		n->kind = NODE_LITERAL;
		n->value = none ? value_none() : value_boolean(string_among(n->name, "true True"));
	}
	n->flag = p->in_macro && string_among(n->name, "varargs kwargs caller");
	parser_next(p);
	return n;
}

static const struct node* parse_string(struct parser* p) {
	struct builder b = {.machine = p->machine};
	const struct string* text = p->token.text;
	parser_next(p);
	if (p->token.kind == TOKEN_STRING) { /* side by side they are one */
		builder_string(&b, text);
		for (; p->token.kind == TOKEN_STRING; parser_next(p))
			builder_string(&b, p->token.text);
		text = builder_end(&b);
	}
	return literal(p, value_string(text));
}

/* Whether another item follows: after a comma, which may be the last thing too, up to what closes. */
static bool parse_another(struct parser* p, bool first, enum operator close, const char* wanted) {
	if (parser_take(p, close))
		return false;
	if (first)
		return true;
	parser_want(p, COMMA, wanted);
	return !parser_take(p, close);
}

static const struct node* parse_list(struct parser* p) {
	struct node* const list = parser_node(p, NODE_LIST);
	parser_next(p);
	while (parse_another(p, list->n == 0, CLOSE_LIST, "a comma or ]"))
		node_add(p->machine, list, parse_expression(p, true));
	return list;
}

static const struct node* parse_dict(struct parser* p) {
	struct node* const dict = parser_node(p, NODE_DICT);
	parser_next(p);
	while (parse_another(p, dict->n == 0, CLOSE_DICT, "a comma or }")) {
		node_add(p->machine, dict, parse_expression(p, true));
		parser_want(p, COLON, "a colon");
		node_add(p->machine, dict, parse_expression(p, true));
	}
	return dict;
}

static const struct node* parse_primary(struct parser* p) {
	const struct token t = p->token;
	if (t.kind == TOKEN_NAME)
		return parse_name(p);
	if (t.kind == TOKEN_STRING)
		return parse_string(p);
	if (t.kind == TOKEN_NUMBER) {
		parser_next(p);
		return literal(p, t.number);
	}
	if (parser_take(p, OPEN)) {
		const struct node* const inner = parse_tuple(p, true, true);
		parser_want(p, CLOSE, "a closing )");
		return inner;
	}
	if (parser_at(p, OPEN_LIST))
		return parse_list(p);
	if (parser_at(p, OPEN_DICT))
		return parse_dict(p);
	parser_fail(p, "an expression");
}

const struct node* parse_tuple(struct parser* p, bool choose, bool empty) {
	struct node* const tuple = parser_node(p, NODE_TUPLE);
	bool comma = false;
	for (;;) {
		const bool ends =
		    p->token.kind == TOKEN_PRINT_END || p->token.kind == TOKEN_BLOCK_END || parser_at(p, CLOSE);
		if (ends)
			break;
		node_add(p->machine, tuple, parse_expression(p, choose));
		if (!parser_take(p, COMMA))
			break;
		comma = true;
	}
	if (comma)
		return tuple;
	if (tuple->n == 1)
		return tuple->item[0];
	if (!empty)
		parser_fail(p, "an expression");
	return tuple;
}

/* ---- what follows ------------------------------------------------------------------------- */

static const struct node* parse_argument(struct parser* p, const struct node* before) {
	const bool named =
	    p->token.kind == TOKEN_NAME && p->ahead.kind == TOKEN_OPERATOR && p->ahead.operator== ASSIGN;
	if (!named && !parser_at(p, TIMES) && !parser_at(p, POWER)) {
		if (before && (before->kind == NODE_KEYWORD || before->kind == NODE_SPREAD_DICT))
			parser_fail(p, "no argument by place after one by name");
		return parse_expression(p, true);
	}
	struct node* const argument = parser_node(p, named                 ? NODE_KEYWORD
	                                             : parser_at(p, TIMES) ? NODE_SPREAD
	                                                                   : NODE_SPREAD_DICT);
	argument->name = named ? p->token.text : NULL;
	if (named)
		parser_next(p);
	parser_next(p);
	argument->a = parse_expression(p, true);
	return argument;
}

/* From ( to ). */
static void parse_arguments(struct parser* p, struct node* call) {
	parser_want(p, OPEN, "(");
	while (parse_another(p, call->n == 0, CLOSE, "a comma or )"))
		node_add(p->machine, call, parse_argument(p, call->n ? call->item[call->n - 1] : NULL));
}

static const struct node* parse_call(struct parser* p, const struct node* callee) {
	struct node* const call = binary(p, NODE_CALL, callee);
	parse_arguments(p, call);
	return call;
}

/* One subscript: an index, or a slice whose parts may be missing. */
static const struct node* parse_index(struct parser* p, const struct node* of) {
	const struct node* part[3] = {0};
	int n = 0;
	bool slice = false;
	while (!parser_at(p, CLOSE_LIST) && !parser_at(p, COMMA)) {
		if (parser_take(p, COLON)) {
			slice = true;
			if (++n > 2)
				parser_fail(p, "]");
		} else {
			if (part[n])
				parser_fail(p, "a colon or ]");
			part[n] = parse_expression(p, true);
		}
	}
	if (!slice && !part[0])
		parser_fail(p, "an index");
	struct node* const index = binary(p, slice ? NODE_SLICE : NODE_ITEM, of);
	index->b = part[0];
	index->c = part[1];
	index->d = part[2];
	return index;
}

static const struct node* parse_subscript(struct parser* p, const struct node* of) {
	if (parser_take(p, DOT)) {
		const bool number = p->token.kind == TOKEN_NUMBER && p->token.number.kind == INTEGER;
		struct node* const n = binary(p, number ? NODE_ITEM : NODE_ATTRIBUTE, of);
		if (number) {
			n->b = literal(p, p->token.number);
			parser_next(p);
		} else {
			n->name = parser_want_name(p, "a name after the dot");
		}
		return n;
	}
	parser_next(p);
	const struct node* const index = parse_index(p, of);
	if (parser_at(p, COMMA))
		parser_fail(p, "one index");
	parser_want(p, CLOSE_LIST, "]");
	return index;
}

static const struct node* parse_postfix(struct parser* p, const struct node* n) {
	for (;;) {
		if (parser_at(p, DOT) || parser_at(p, OPEN_LIST))
			n = parse_subscript(p, n);
		else if (parser_at(p, OPEN))
			n = parse_call(p, n);
		else
			return n;
	}
}

/* Names of filters and tests may have dots. */
static const struct string* parse_dotted(struct parser* p, const char* what) {
	const struct string* name = parser_want_name(p, what);
	while (parser_take(p, DOT)) {
		struct builder b = {.machine = p->machine};
		builder_string(&b, name);
		builder_words(&b, ".");
		builder_string(&b, parser_want_name(p, what));
		name = builder_end(&b);
	}
	return name;
}

const struct node* parse_filters(struct parser* p, const struct node* from, bool start) {
	const struct node* n = from;
	while (start || parser_take(p, PIPE)) {
		start = false;
		struct node* const filter = binary(p, NODE_FILTER, n);
		filter->name = parse_dotted(p, "a filter's name");
		filter->table = library_filter(filter->name);
		if (parser_at(p, OPEN))
			parse_arguments(p, filter);
		n = filter;
	}
	return n;
}

static const struct node* parse_test(struct parser* p, const struct node* of) {
	struct node* const test = binary(p, NODE_TEST, of);
	parser_next(p);
	test->flag = parser_take_name(p, "not");
	test->name = parse_dotted(p, "a test's name");
	test->table = library_test(test->name);
	const struct token* const t = &p->token;
	const bool argument = t->kind == TOKEN_NAME || t->kind == TOKEN_STRING || t->kind == TOKEN_NUMBER ||
	                      parser_at(p, OPEN_LIST) || parser_at(p, OPEN_DICT);
	if (parser_at(p, OPEN)) {
		parse_arguments(p, test);
	} else if (argument && !(t->kind == TOKEN_NAME && string_among(t->text, "else or and"))) {
		if (parser_at_name(p, "is"))
			parser_fail(p, "no test after a test");
		node_add(p->machine, test, parse_postfix(p, parse_primary(p)));
	}
	return test;
}

static const struct node* parse_filters_and_tests(struct parser* p, const struct node* n) {
	for (;;) {
		if (parser_at(p, PIPE))
			n = parse_filters(p, n, false);
		else if (parser_at_name(p, "is"))
			n = parse_test(p, n);
		else if (parser_at(p, OPEN))
			n = parse_call(p, n);
		else
			return n;
	}
}

/* ---- operators ---------------------------------------------------------------------------- */

static const struct node* parse_unary(struct parser* p, bool filters) {
	parser_nest(p);
	const struct node* n;
	if (parser_at(p, MINUS) || parser_at(p, PLUS)) {
		struct node* const sign = binary(p, NODE_BINARY, literal(p, value_integer(0))); /* 0 - a */
		sign->operator= p->token.operator;
		parser_next(p);
		sign->b = parse_unary(p, false);
		n = sign;
	} else {
		n = parse_primary(p);
	}
	n = parse_postfix(p, n);
	if (filters)
		n = parse_filters_and_tests(p, n);
	p->nesting--;
	return n;
}

static bool at_one_of(const struct parser* p, const enum operator* operators) {
	for (; *operators; operators++)
		if (*operators == AND || *operators == OR ? parser_at_name(p, *operators == AND ? "and" : "or")
		                                          : parser_at(p, *operators))
			return true;
	return false;
}

static const struct node* parse_not(struct parser*);

/* Left to right, what binds looser first. */
enum { LOOSEST = 0, COMPARISONS = 2, SUMS };
static const struct node* parse_level(struct parser* p, int level) {
	static const enum operator operators[][5] = {
	    {OR}, {AND}, {OPERATOR_NONE}, {PLUS, MINUS}, {TILDE}, {TIMES, DIVIDE, FLOOR_DIVIDE, MODULO}, {POWER}};
	if (level == COMPARISONS)
		return parse_not(p);
	if (level == sizeof operators / sizeof *operators)
		return parse_unary(p, true);
	const struct node* n = parse_level(p, level + 1);
	while (at_one_of(p, operators[level])) {
		struct node* const both = binary(p, NODE_BINARY, n);
		const bool word = level < COMPARISONS;
		both->operator= word ? *operators[level] : p->token.operator;
		parser_next(p);
		both->b = parse_level(p, level + 1);
		n = both;
	}
	return n;
}

/* The comparison at the parser's place, passed over; OPERATOR_NONE when there is none. */
static enum operator take_comparison(struct parser* p) {
	static const enum operator operators[] = {EQUAL,   NOT_EQUAL,     LESS,         LESS_EQUAL,
	                                          GREATER, GREATER_EQUAL, OPERATOR_NONE};
	if (at_one_of(p, operators)) {
		const enum operator o = p->token.operator;
		parser_next(p);
		return o;
	}
	if (parser_take_name(p, "in"))
		return IN;
	if (parser_at_name(p, "not") && p->ahead.kind == TOKEN_NAME && string_is(p->ahead.text, "in")) {
		parser_next(p);
		parser_next(p);
		return NOT_IN;
	}
	return OPERATOR_NONE;
}

static const struct node* parse_compare(struct parser* p) {
	const struct node* const first = parse_level(p, SUMS);
	struct node* chain = NULL;
	for (enum operator o; (o = take_comparison(p)) != OPERATOR_NONE;) {
		if (!chain)
			chain = binary(p, NODE_COMPARE, first);
		struct node* const operand = parser_node(p, NODE_OPERAND);
		operand->operator= o;
		operand->a = parse_level(p, SUMS);
		node_add(p->machine, chain, operand);
	}
	return chain ? chain : first;
}

static const struct node* parse_not(struct parser* p) {
	if (!parser_at_name(p, "not"))
		return parse_compare(p);
	parser_nest(p);
	struct node* const n = parser_node(p, NODE_NOT);
	parser_next(p);
	n->a = parse_not(p);
	p->nesting--;
	return n;
}

const struct node* parse_expression(struct parser* p, bool choose) {
	parser_nest(p);
	const struct node* n = parse_level(p, LOOSEST);
	while (choose && parser_take_name(p, "if")) {
		struct node* const choice = binary(p, NODE_CHOOSE, n);
		choice->b = parse_level(p, LOOSEST);
		if (parser_take_name(p, "else"))
			choice->c = parse_expression(p, true);
		n = choice;
	}
	p->nesting--;
	return n;
}
