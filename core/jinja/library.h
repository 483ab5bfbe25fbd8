/* The functions that templates can call: filters, tests, methods, global functions; and the evaluator, which
 * they call back. */
#pragma once

#include "core/jinja/node.h"

/* ---- routines ----------------------------------------------------------------------------- */

enum { MOST_PARAMETERS = 4, AS_THEY_CAME = -1 };

/* One call of a routine. */
struct call {
	const char* name;
	int how;
	struct value self;                   /* the value that is filtered or tested, or whose method it is */
	struct value given[MOST_PARAMETERS]; /* by parameter, ABSENT where not given */
	const struct arguments* all;         /* as they came */
};

/* The kind of a routine: a filter, a test, or a method of these kinds. */
#define OF(kind) (1 << (kind))
enum { FILTER = 1 << 24, TEST = 1 << 25 };

/* A function that templates call by name: a row of a table. */
struct routine {
	const char* name; /* or several, with blanks between them */
	int of;
	/* NULL: it would change a value in place, which the sandbox forbids */
	struct value (*run)(struct machine*, struct call*);
	int how;      /* selects among routines that share a function */
	int required; /* number of required parameters, or AS_THEY_CAME */
	const char* parameter[MOST_PARAMETERS];
};
/* The routine with this name and kind; NULL if there is none. */
const struct routine* library_find(int of, const struct string* name);
/* These end with a row without a name. */
extern const struct routine global_functions[], text_routines[], list_routines[], value_routines[];
/* Fails with a message that names the unknown filter or test. */
_Noreturn void library_fail(struct machine*, int of, const struct string* name);

/* Binds arguments by place and by name, and runs the routine. */
struct value routine_call(struct machine*, const struct routine*, struct value self, const struct arguments*);

/* ---- arguments ---------------------------------------------------------------------------- */

/* Fills given; fails when an argument is missing or there are too many. */
void arguments_take(struct machine*, const struct routine*, const struct arguments*, struct value* given);
/* The arguments of a filter given to a filter (map('join', ', ')): all but the first `skip` by place. */
struct arguments arguments_rest(const struct arguments*, int skip);
/* Each fails with a message that names the routine; for ABSENT it gives `otherwise`, or NULL. */
int64_t argument_integer(struct machine*, struct value, const char* what, int64_t otherwise);
const struct string* argument_string(struct machine*, struct value, const char* what);
/* One level of indentation: a string, or a number of blanks. */
const struct string* argument_indent(struct machine*, struct value, const char* what);
/* None is as good as nothing. */
static inline struct value argument_or_none(struct value v) {
	return v.kind == NONE ? (struct value){.kind = ABSENT} : v;
}
/* An index as slices and find() take it: in [0, length], from the end when negative. */
int64_t clamp_index(int64_t index, int64_t length);

/* ---- operators ---------------------------------------------------------------------------- */

struct value operator_binary(struct machine*, int sign, struct value, struct value);
bool operator_compare(struct machine*, int sign, struct value, struct value);
/* Python's %, format() and str.format(). */
struct value format_percent(struct machine*, const struct string*, struct value);
struct value format_braces(struct machine*, const struct string*, const struct arguments*);
/* Markup: the text with & < > " ' as entities. Markup itself stays as it is. */
const struct string* escape_markup(struct machine*, const struct string*);
/* An item by place or name, in Jinja's order: items first; else undefined. */
struct value value_index(struct machine*, struct value, struct value index);
/* a.b.c, as in map(attribute='b.c'); digits are an index. otherwise: in place of any part that is undefined,
 * or ABSENT. */
struct value value_path(struct machine*, struct value, const struct string* path, struct value otherwise);
const struct string* string_lower(struct machine*, const struct string*);

/* ---- evaluation --------------------------------------------------------------------------- */

struct scope {
	struct scope* outer;
	struct dict names;
};
struct macro {
	const struct node* node;
	struct scope* scope; /* where it was made */
};
struct loop {
	struct value* item;
	int n, at;
};
struct scope* scope_within(struct machine*, struct scope* outer);
void scope_set(struct machine*, struct scope*, const struct string* name, struct value);
/* NULL when the name is bound nowhere. */
struct value* scope_find(struct machine*, struct scope*, const struct string* name);

struct value evaluate(struct machine*, struct scope*, const struct node*);
enum flow { GO_ON, BREAK, CONTINUE };
enum flow execute(struct machine*, struct scope*, const struct node*, struct builder* out);
/* The output of a body, as a string. */
struct value body_text(struct machine*, struct scope*, const struct node* body);
struct value call_macro(struct machine*, const struct macro*, const struct arguments*);
