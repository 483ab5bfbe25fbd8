/* Runs statements: bodies that write, loops, scopes, macros. */
#include <string.h>

#include "core/jinja/library.h"

/* ---- scopes ------------------------------------------------------------------------------- */

struct value* scope_find(struct machine* m, struct scope* s, const struct string* name) {
	struct value* found = NULL;
	for (; s && !found; s = s->outer)
		found = dict_find_name(m, &s->names, name);
	return found;
}

void scope_set(struct machine* m, struct scope* s, const struct string* name, struct value v) {
	dict_set(m, &s->names, value_string(name), v);
}

struct scope* scope_within(struct machine* m, struct scope* outer) {
	return MACHINE_NEW(m, struct scope, .outer = outer);
}

/* ---- setting ------------------------------------------------------------------------------ */

static void set_target(struct machine* m, struct scope* s, const struct node* target, struct value v);

static void set_tuple(struct machine* m, struct scope* s, const struct node* target, struct value v) {
	const struct list* const items = value_items(m, v);
	if (items->n != target->n)
		machine_fail(m, "%d values to unpack, expected %d", items->n, target->n);
	for (int i = 0; i < target->n; i++)
		set_target(m, s, target->item[i], items->item[i]);
}

static void set_member(struct machine* m, struct scope* s, const struct node* target, struct value v) {
	const struct value* const of = scope_find(m, s, target->a->name);
	if (!of || of->kind != NAMESPACE)
		machine_fail(m, "cannot assign attribute on non-namespace object");
	dict_set(m, of->dict, value_string(target->name), v);
}

static void set_target(struct machine* m, struct scope* s, const struct node* target, struct value v) {
	if (target->kind == NODE_TUPLE)
		set_tuple(m, s, target, v);
	else if (target->kind == NODE_TARGET_MEMBER)
		set_member(m, s, target, v);
	else
		scope_set(m, s, target->name, v);
}

struct value body_text(struct machine* m, struct scope* s, const struct node* body) {
	struct builder b = {.machine = m};
	execute(m, s, body, &b);
	return value_string(builder_end(&b));
}

/* ---- loops -------------------------------------------------------------------------------- */

/* The items that the loop's own condition selects. */
static const struct list* select_items(struct machine* m, struct scope* s, const struct node* n,
                                       const struct list* all) {
	if (!n->c)
		return all;
	struct list* const some = value_list(m, LIST).list;
	for (int i = 0; i < all->n; i++) {
		struct scope* const inner = scope_within(m, s);
		set_target(m, inner, n->a, all->item[i]);
		if (value_truth(evaluate(m, inner, n->c)))
			list_add(m, some, all->item[i]);
	}
	return some;
}

static enum flow run_loop(struct machine* m, struct scope* s, const struct node* n, struct value over,
                          struct builder* out) {
	const struct list* const items = select_items(m, s, n, value_items(m, over));
	if (items->n == 0)
		return n->e ? execute(m, scope_within(m, s), n->e, out) : GO_ON;
	struct loop* const loop = MACHINE_NEW(m, struct loop, .item = items->item, .n = items->n);
	const struct string* const loop_name = string_of(m, "loop");
	for (; loop->at < loop->n; loop->at++) {
		struct scope* const inner = scope_within(m, s);
		scope_set(m, inner, loop_name, (struct value){.kind = LOOP, .loop = loop});
		set_target(m, inner, n->a, items->item[loop->at]);
		if (execute(m, inner, n->d, out) == BREAK)
			break;
	}
	return GO_ON;
}

/* ---- macros ------------------------------------------------------------------------------- */

struct value call_macro(struct machine* m, const struct macro* macro, const struct arguments* a) {
	const struct node* const n = macro->node;
	const int line = m->line;
	struct scope* const s = scope_within(m, macro->scope);
	struct value* const given = machine_alloc(m, (size_t)n->n * sizeof *given);
	machine_enter(m);
	if (a->place.n > n->n)
		machine_fail(m, "macro '%.*s' takes not more than %d argument(s)", EXCERPT(n->name), n->n);
	for (int i = 0; i < n->n; i++)
		given[i] = i < a->place.n ? a->place.item[i] : (struct value){.kind = ABSENT};
	for (int k = 0; k < a->named.n; k++) {
		const struct string* const name = a->named.entry[k].key.string;
		int i = 0;
		if (n->flag && string_is(name, "caller")) {
			scope_set(m, s, name, a->named.entry[k].value);
			continue;
		}
		while (i < n->n && !string_equal(m, n->item[i]->name, name))
			i++;
		if (i == n->n || given[i].kind != ABSENT)
			machine_fail(m, "macro '%.*s' takes no keyword argument '%.*s'", EXCERPT(n->name), EXCERPT(name));
		given[i] = a->named.entry[k].value;
	}
	for (int i = 0; i < n->n; i++) {
		const struct node* const parameter = n->item[i];
		if (given[i].kind == ABSENT)
			given[i] = parameter->a ? evaluate(m, s, parameter->a) : value_undefined(parameter->name);
		scope_set(m, s, parameter->name, given[i]);
	}
	const struct value out = body_text(m, s, n->d);
	machine_leave(m);
	m->line = line;
	return out;
}

/* ---- statements --------------------------------------------------------------------------- */

static enum flow run_if(struct machine* m, struct scope* s, const struct node* n, struct builder* out) {
	for (; n && n->kind == NODE_IF; n = n->c) {
		m->line = n->line;
		machine_charge(m, 0);
		if (value_truth(evaluate(m, s, n->a)))
			return execute(m, s, n->b, out);
	}
	return n ? execute(m, s, n, out) : GO_ON;
}

static enum flow run_with(struct machine* m, struct scope* s, const struct node* n, struct builder* out) {
	struct scope* const inner = scope_within(m, s);
	struct value* const v = machine_alloc(m, (size_t)n->n * sizeof *v);
	for (int i = 0; i < n->n; i += 2) /* values are of the scope around */
		v[i] = evaluate(m, s, n->item[i + 1]);
	for (int i = 0; i < n->n; i += 2)
		set_target(m, inner, n->item[i], v[i]);
	return execute(m, inner, n->d, out);
}

static enum flow run_body(struct machine* m, struct scope* s, const struct node* n, struct builder* out) {
	for (int i = 0; i < n->n; i++) {
		const enum flow flow = execute(m, s, n->item[i], out);
		if (flow != GO_ON)
			return flow;
	}
	return GO_ON;
}

static enum flow run_nodes(struct machine* m, struct scope* s, const struct node* n, struct builder* out) {
	struct value macro = {.kind = MACRO};
	switch (n->kind) {
	case NODE_BODY:
		return run_body(m, s, n, out);
	case NODE_TEXT:
		builder_string(out, n->name);
		return GO_ON;
	case NODE_PRINT:
		value_write(out, evaluate(m, s, n->a));
		return GO_ON;
	case NODE_IF:
		return run_if(m, s, n, out);
	case NODE_FOR:
		return run_loop(m, s, n, evaluate(m, s, n->b), out);
	case NODE_SET:
		set_target(m, s, n->a, evaluate(m, s, n->b));
		return GO_ON;
	case NODE_MACRO:
		macro.macro = MACHINE_NEW(m, struct macro, .node = n, .scope = s);
		scope_set(m, s, n->name, macro);
		return GO_ON;
	case NODE_WITH:
		return run_with(m, s, n, out);
	case NODE_BREAK:
		return BREAK;
	default:
		return CONTINUE;
	}
}

enum flow execute(struct machine* m, struct scope* s, const struct node* n, struct builder* out) {
	machine_enter(m);
	m->line = n->line;
	const enum flow flow = run_nodes(m, s, n, out);
	machine_leave(m);
	return flow;
}
