/* A parsed template: a tree of nodes, and the tokens that it was made from. */
#pragma once

#include "core/jinja/value.h"

enum token_kind {
	TOKEN_TEXT,  /* between the tags */
	TOKEN_PRINT, /* {{ */
	TOKEN_PRINT_END,
	TOKEN_BLOCK, /* {% */
	TOKEN_BLOCK_END,
	TOKEN_NAME,
	TOKEN_STRING,
	TOKEN_NUMBER,
	TOKEN_OPERATOR,
	TOKEN_END
};

/* Operators of expressions: the character, or one of these. */
enum { FLOOR_DIVIDE = 128, POWER, EQUAL, NOT_EQUAL, LESS_EQUAL, GREATER_EQUAL, IN, NOT_IN, AND, OR };

/* As it is written. */
const char* sign_text(int sign);

struct token {
	enum token_kind kind;
	int line;
	const struct string* text; /* TEXT, STRING, NAME, OPERATOR */
	struct value number;
};

enum node_kind {
	/* expressions */
	NODE_LITERAL,
	NODE_NAME,
	NODE_TUPLE,
	NODE_LIST,
	NODE_DICT,      /* item: key, value, key, value… */
	NODE_ATTRIBUTE, /* a.name */
	NODE_ITEM,      /* a[b] */
	NODE_SLICE,     /* a[b:c:d], parts may be NULL */
	NODE_CALL,      /* a(item…) */
	NODE_KEYWORD,   /* an argument name=a */
	NODE_SPREAD,    /* an argument *a */
	NODE_SPREAD_DICT,
	NODE_FILTER, /* a|name(item…) */
	NODE_TEST,   /* a is name(item…) */
	NODE_NOT,
	NODE_COMPARE, /* a, then item: nodes OPERAND with sign and a */
	NODE_OPERAND,
	NODE_BINARY,
	NODE_CHOOSE,  /* a if b else c; c may be NULL */
	NODE_WRITTEN, /* the output of body a as a string: {% set %} without = and {% filter %} */
	/* statements */
	NODE_BODY, /* item… */
	NODE_TEXT,
	NODE_PRINT,
	NODE_IF,            /* a: condition, b: body, c: else, an IF or a BODY or NULL */
	NODE_FOR,           /* a: target, b: iterable, c: condition or NULL, d: body, e: else or NULL */
	NODE_SET,           /* a = b */
	NODE_TARGET_MEMBER, /* a target NAME.name */
	NODE_MACRO,         /* name, item: NAMEs with defaults in a; d: body; flag: a caller may be passed. As an
	                       expression: the macro that {% call %} passes */
	NODE_WITH,          /* item: target, value, …; d: body */
	NODE_BREAK,
	NODE_CONTINUE
};

struct node {
	enum node_kind kind;
	int line;
	int sign;           /* BINARY, OPERAND */
	bool flag;          /* TEST: negated; NAME: a variable that Jinja gives macros beyond their parameters */
	struct value value; /* LITERAL */
	const struct string* name; /* TEXT: the text */
	const void* table;         /* FILTER, TEST: its row, NULL when unknown */
	const struct node *a, *b, *c, *d, *e;
	const struct node** item; /* (n) */
	int n, capacity;
};

/* The next token of the source; fails at invalid text. */
struct lexer {
	struct machine* machine;
	const struct string* source;
	size_t at;
	int line;
	bool inside;        /* a tag */
	bool in_print;      /* {{, else {% */
	bool json;          /* reads JSON: what stands between {{ and }}, with JSON's escapes and signs */
	bool line_starting; /* what came last ended a line */
	int n_open;         /* brackets */
};
/* For templates: newlines are normalized, and the last one is dropped. */
struct lexer lexer_start(struct machine*, const char* source, size_t size);
struct lexer lexer_start_json(struct machine*, const char* text, size_t size);
struct token lexer_next(struct lexer*);

/* The whole template. */
const struct node* parse(struct machine*, const char* source, size_t size);

/* The parser's own, shared by its two files. ---------------------------------------------------- */
struct parser {
	struct machine* machine;
	struct lexer lexer;
	struct token token, ahead; /* the present token and the one after */
	int nesting, loops;
	bool in_macro, uses_caller; /* the macro at hand names `caller` */
};
void parser_next(struct parser*);
/* True when this name or operator comes next. `take` skips it, `want` fails without it. */
bool parser_at(const struct parser*, const char* word);
bool parser_take(struct parser*, const char* word);
void parser_want(struct parser*, const char* word, const char* what);
void parser_want_kind(struct parser*, enum token_kind, const char* what);
const struct string* parser_want_name(struct parser*, const char* what);
_Noreturn void parser_fail(struct parser*, const char* wanted);
struct node* parser_node(struct parser*, enum node_kind);
void node_add(struct machine*, struct node*, const struct node*);
void parser_nest(struct parser*);

const struct node* parse_expression(struct parser*, bool choose); /* choose: `a if b else c` may be one */
/* Expressions with commas between them; a single one is itself. `empty`: () may be a tuple. */
const struct node* parse_tuple(struct parser*, bool choose, bool empty);
const struct node* parse_filters(struct parser*, const struct node* from, bool start); /* start: no | first */
