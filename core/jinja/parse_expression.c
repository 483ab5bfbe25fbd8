/* Expressions, with Jinja's precedence: choice, or, and, not, comparison, + -, ~, * / // %, **, unary, then
 * subscripts, calls, filters and tests. */
#include "core/jinja/library.h"

static const struct node* parse_unary(struct parser*, bool filters);

static struct node* make_binary(struct parser* p, enum node_kind kind, const struct node* a) {
	struct node* const n = parser_node(p, kind);
	n->a = a;
	return n;
}

/* ---- the least ---------------------------------------------------------------------------- */

static const struct node* make_literal(struct parser* p, struct value v) {
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
	p->uses_caller |= n->flag && string_is(n->name, "caller");
	parser_next(p);
	return n;
}

/* Several side by side are one. */
static const struct node* parse_string(struct parser* p) {
	struct builder b = {.machine = p->machine};
	for (; p->token.kind == TOKEN_STRING; parser_next(p))
		builder_string(&b, p->token.text);
	return make_literal(p, value_string(builder_end(&b)));
}

/* True when another item follows: after a comma, which may also be the last thing before the closing
 * bracket. */
static bool parse_another(struct parser* p, bool first, const char* close, const char* wanted) {
	if (parser_take(p, close))
		return false;
	if (first)
		return true;
	parser_want(p, ",", wanted);
	return !parser_take(p, close);
}

/* From one bracket to the other. */
static const struct node* parse_items(struct parser* p, enum node_kind kind, const char* close,
                                      const char* wanted) {
	struct node* const n = parser_node(p, kind);
	parser_next(p);
	while (parse_another(p, n->n == 0, close, wanted)) {
		node_add(p->machine, n, parse_expression(p, true));
		if (kind == NODE_LIST)
			continue;
		parser_want(p, ":", "a colon");
		node_add(p->machine, n, parse_expression(p, true));
	}
	return n;
}

static const struct node* parse_primary(struct parser* p) {
	const struct token t = p->token;
	if (t.kind == TOKEN_NAME)
		return parse_name(p);
	if (t.kind == TOKEN_STRING)
		return parse_string(p);
	if (t.kind == TOKEN_NUMBER) {
		parser_next(p);
		return make_literal(p, t.number);
	}
	if (parser_take(p, "(")) {
		const struct node* const inner = parse_tuple(p, true, true);
		parser_want(p, ")", "a closing )");
		return inner;
	}
	if (parser_at(p, "["))
		return parse_items(p, NODE_LIST, "]", "a comma or ]");
	if (parser_at(p, "{"))
		return parse_items(p, NODE_DICT, "}", "a comma or }");
	parser_fail(p, "an expression");
}

const struct node* parse_tuple(struct parser* p, bool choose, bool empty) {
	struct node* const tuple = parser_node(p, NODE_TUPLE);
	bool comma = true;
	while (comma && p->token.kind != TOKEN_PRINT_END && p->token.kind != TOKEN_BLOCK_END &&
	       !parser_at(p, ")")) {
		node_add(p->machine, tuple, parse_expression(p, choose));
		comma = parser_take(p, ",");
	}
	if (tuple->n == 0 && !empty)
		parser_fail(p, "an expression");
	return tuple->n == 1 && !comma ? tuple->item[0] : tuple;
}

/* ---- what follows ------------------------------------------------------------------------- */

static const struct node* parse_argument(struct parser* p, const struct node* before) {
	const bool named =
	    p->token.kind == TOKEN_NAME && p->ahead.kind == TOKEN_OPERATOR && string_is(p->ahead.text, "=");
	if (!named && !parser_at(p, "*") && !parser_at(p, "**")) {
		if (before && (before->kind == NODE_KEYWORD || before->kind == NODE_SPREAD_DICT))
			parser_fail(p, "no positional argument after a keyword argument");
		return parse_expression(p, true);
	}
	struct node* const argument = parser_node(p, named               ? NODE_KEYWORD
	                                             : parser_at(p, "*") ? NODE_SPREAD
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
	parser_want(p, "(", "(");
	while (parse_another(p, call->n == 0, ")", "a comma or )"))
		node_add(p->machine, call, parse_argument(p, call->n ? call->item[call->n - 1] : NULL));
}

static const struct node* parse_call(struct parser* p, const struct node* callee) {
	struct node* const call = make_binary(p, NODE_CALL, callee);
	parse_arguments(p, call);
	return call;
}

/* [index], or a slice whose parts may be missing. */
static const struct node* parse_index(struct parser* p, const struct node* of) {
	const struct node* part[3] = {0};
	int n = 0;
	parser_next(p);
	while (!parser_at(p, "]") && !parser_at(p, ",")) {
		if (parser_take(p, ":")) {
			if (++n > 2)
				parser_fail(p, "]");
		} else {
			if (part[n])
				parser_fail(p, "a colon or ]");
			part[n] = parse_expression(p, true);
		}
	}
	if (!n && !part[0])
		parser_fail(p, "an index");
	struct node* const index = make_binary(p, n ? NODE_SLICE : NODE_ITEM, of);
	index->b = part[0];
	index->c = part[1];
	index->d = part[2];
	parser_want(p, "]", "one index");
	return index;
}

static const struct node* parse_member(struct parser* p, const struct node* of) {
	parser_next(p);
	const bool number = p->token.kind == TOKEN_NUMBER && p->token.number.kind == INTEGER;
	struct node* const n = make_binary(p, number ? NODE_ITEM : NODE_ATTRIBUTE, of);
	if (number) {
		n->b = make_literal(p, p->token.number);
		parser_next(p);
	} else {
		n->name = parser_want_name(p, "a name after the dot");
	}
	return n;
}

static const struct node* parse_postfix(struct parser* p, const struct node* n) {
	for (;;) {
		if (parser_at(p, "."))
			n = parse_member(p, n);
		else if (parser_at(p, "["))
			n = parse_index(p, n);
		else if (parser_at(p, "("))
			n = parse_call(p, n);
		else
			return n;
	}
}

/* Names of filters and tests may have dots. */
static const struct string* parse_dotted(struct parser* p, const char* what) {
	struct builder b = {.machine = p->machine};
	builder_string(&b, parser_want_name(p, what));
	while (parser_take(p, ".")) {
		builder_words(&b, ".");
		builder_string(&b, parser_want_name(p, what));
	}
	return builder_end(&b);
}

const struct node* parse_filters(struct parser* p, const struct node* n, bool start) {
	while (start || parser_take(p, "|")) {
		start = false;
		struct node* const filter = make_binary(p, NODE_FILTER, n);
		filter->name = parse_dotted(p, "a filter's name");
		filter->table = library_find(FILTER, filter->name);
		if (parser_at(p, "("))
			parse_arguments(p, filter);
		n = filter;
	}
	return n;
}

static const struct node* parse_test(struct parser* p, const struct node* of) {
	struct node* const test = make_binary(p, NODE_TEST, of);
	parser_next(p);
	test->flag = parser_take(p, "not");
	test->name = parse_dotted(p, "a test's name");
	test->table = library_find(TEST, test->name);
	const struct token* const t = &p->token;
	const bool argument = t->kind == TOKEN_NAME || t->kind == TOKEN_STRING || t->kind == TOKEN_NUMBER ||
	                      parser_at(p, "[") || parser_at(p, "{");
	if (parser_at(p, "(")) {
		parse_arguments(p, test);
	} else if (argument && !(t->kind == TOKEN_NAME && string_among(t->text, "else or and"))) {
		if (parser_at(p, "is"))
			parser_fail(p, "no test after a test");
		node_add(p->machine, test, parse_postfix(p, parse_primary(p)));
	}
	return test;
}

static const struct node* parse_filters_and_tests(struct parser* p, const struct node* n) {
	for (;;) {
		if (parser_at(p, "|"))
			n = parse_filters(p, n, false);
		else if (parser_at(p, "is"))
			n = parse_test(p, n);
		else if (parser_at(p, "("))
			n = parse_call(p, n);
		else
			return n;
	}
}

/* ---- operators ---------------------------------------------------------------------------- */

static const struct node* parse_unary(struct parser* p, bool filters) {
	parser_nest(p);
	const struct node* n;
	if (parser_at(p, "-") || parser_at(p, "+")) {
		struct node* const sign = make_binary(p, NODE_BINARY, make_literal(p, value_integer(0))); /* 0 - a */
		sign->sign = parser_at(p, "-") ? '-' : '+';
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

/* Skips the operator if it comes next, and returns whether it did. */
static bool take_operator(struct parser* p, int sign) {
	if (sign != NOT_IN)
		return parser_take(p, sign_text(sign));
	const bool here = parser_at(p, "not") && p->ahead.kind == TOKEN_NAME && string_is(p->ahead.text, "in");
	if (here) {
		parser_next(p);
		parser_next(p);
	}
	return here;
}

/* Operators that bind looser have lower levels. */
enum { LOOSEST = 0, COMPARISONS = 2, SUMS, LEVELS = 7 };

/* Skips and returns an operator of this level; 0 without one. */
static int take_of_level(struct parser* p, int level) {
	static const int operators[LEVELS][9] = {
	    {OR},       {AND}, {EQUAL, NOT_EQUAL, '<', LESS_EQUAL, '>', GREATER_EQUAL, IN, NOT_IN},
	    {'+', '-'}, {'~'}, {'*', '/', FLOOR_DIVIDE, '%'},
	    {POWER}};
	for (const int* sign = operators[level]; *sign; sign++)
		if (take_operator(p, *sign))
			return *sign;
	return 0;
}

static const struct node* parse_not(struct parser*);

/* Left to right. */
static const struct node* parse_level(struct parser* p, int level) {
	if (level == COMPARISONS)
		return parse_not(p);
	if (level == LEVELS)
		return parse_unary(p, true);
	const struct node* n = parse_level(p, level + 1);
	for (int sign; (sign = take_of_level(p, level)) != 0;) {
		struct node* const both = make_binary(p, NODE_BINARY, n);
		both->sign = sign;
		both->b = parse_level(p, level + 1);
		n = both;
	}
	return n;
}

static const struct node* parse_compare(struct parser* p) {
	const struct node* const first = parse_level(p, SUMS);
	struct node* chain = NULL;
	for (int sign; (sign = take_of_level(p, COMPARISONS)) != 0;) {
		if (!chain)
			chain = make_binary(p, NODE_COMPARE, first);
		struct node* const operand = parser_node(p, NODE_OPERAND);
		operand->sign = sign;
		operand->a = parse_level(p, SUMS);
		node_add(p->machine, chain, operand);
	}
	return chain ? chain : first;
}

static const struct node* parse_not(struct parser* p) {
	if (!parser_at(p, "not"))
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
	while (choose && parser_take(p, "if")) {
		struct node* const choice = make_binary(p, NODE_CHOOSE, n);
		choice->b = parse_level(p, LOOSEST);
		if (parser_take(p, "else"))
			choice->c = parse_expression(p, true);
		n = choice;
	}
	p->nesting--;
	return n;
}
