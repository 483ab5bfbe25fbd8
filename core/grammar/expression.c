/* Turns an expression's tree into a nondeterministic automaton over characters, from back to front, and that
 * into a deterministic one, by subsets. At a look-ahead or a `$`, the rest becomes deterministic at once, and
 * is joined with what must follow. See expression.h. */
#include "core/grammar/expression.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"

enum { MAX_PLACES = 1 << 17, MAX_MEMBERS = 1 << 22, BUCKETS = 1 << 12 };
enum { MOST_WORK = 1 << 25 };

enum place_kind { PLACE_CHARACTER, PLACE_SPLIT, PLACE_END };

struct expression_place {
	enum place_kind kind;
	int a, b; /* CHARACTER: the reader's ranges */
	int next, other;
};

struct automaton {
	struct reader* r;
	struct expression_place* place; /* (n) the first is the end */
	int n;
	bool at_start; /* while emitting the beginning of the text */
};

/* ---- the nondeterministic one ----------------------------------------------------------------- */

static int add_place(struct automaton* x, struct expression_place place) {
	if (x->n == MAX_PLACES || !grow_by_one(&x->place, (size_t)x->n, sizeof *x->place))
		return reader_fail(x->r, "with it the grammar is too large");
	x->place[x->n] = place;
	return x->n++;
}

static int split(struct automaton* x, int a, int b) {
	if (a == NOWHERE || b == NOWHERE || a == b)
		return a == NOWHERE ? b : a;
	return add_place(x, (struct expression_place){.kind = PLACE_SPLIT, .next = a, .other = b});
}

static int loop(struct automaton* x, int next) {
	return add_place(x, (struct expression_place){.kind = PLACE_SPLIT, .next = next, .other = next});
}

static void close_loop(struct automaton* x, int at, int body) {
	if (!x->r->failed && body != NOWHERE)
		x->place[at].next = body;
}

static int anything(struct automaton* x, int next) {
	const int at = loop(x, next), from = x->r->n_ranges;
	reader_range(x->r, 0, LAST_CODE);
	close_loop(x, at,
	           add_place(x, (struct expression_place){
	                            .kind = PLACE_CHARACTER, .a = from, .b = from + 1, .next = at}));
	return at;
}

static struct language* determined(struct automaton*, int start);
static int emit(struct automaton*, int index, int next);

/* A language, then the end. */
static int embedded(struct automaton* x, struct language* l) {
	int* at = l && l->n > 0 ? malloc((size_t)l->n * sizeof *at) : NULL;
	for (int s = 0; at && s < l->n && !x->r->failed; s++)
		at[s] = loop(x, 0);
	for (int s = 0; at && s < l->n && !x->r->failed; s++) {
		int body = l->ends[s] ? 0 : NOWHERE;
		for (int e = l->first[s]; e < l->first[s + 1] && !x->r->failed; e++) {
			const int from = x->r->n_ranges;
			if (l->edge[e].to < 0)
				continue;
			reader_range(x->r, l->edge[e].low, e + 1 < l->first[s + 1] ? l->edge[e + 1].low - 1 : LAST_CODE);
			body = split(x,
			             add_place(x, (struct expression_place){.kind = PLACE_CHARACTER,
			                                                    .a = from,
			                                                    .b = from + 1,
			                                                    .next = at[l->edge[e].to]}),
			             body);
		}
		if (!x->r->failed && body != NOWHERE)
			x->place[at[s]].next = x->place[at[s]].other = body;
	}
	const int start = at && !x->r->failed ? at[0] : NOWHERE;
	free(at);
	language_free(l);
	return start;
}

/* The rest of the text, which the language must or must not contain. */
static int narrowed(struct automaton* x, int next, struct language* by, bool must) {
	struct language* after = determined(x, next);
	struct language* both = language_product(after, by, must ? BOTH : ONLY_FIRST);
	if (!both && !x->r->failed)
		reader_fail(x->r, "with it the grammar is too large");
	language_free(after);
	language_free(by);
	return embedded(x, both);
}

static int look_ahead(struct automaton* x, const struct syntax_node* node, int next) {
	const bool at_start = x->at_start;
	struct language* ahead = determined(x, emit(x, node->a, anything(x, 0)));
	x->at_start = at_start;
	return narrowed(x, next, ahead, node->most != 0);
}

/* True when it contains an anchor or a look-ahead. */
static bool is_special(const struct reader* r, int index, bool anchors) {
	const struct syntax_node* node = &r->node[index];
	for (; node->kind == NODE_SEQUENCE || node->kind == NODE_EITHER; node = &r->node[node->a])
		if (is_special(r, node->b, anchors))
			return true;
	if (node->kind == NODE_REPEAT)
		return is_special(r, node->a, anchors);
	return node->kind == NODE_LOOK_AHEAD || (anchors && (node->kind == NODE_START || node->kind == NODE_END));
}

bool expression_looks(const struct reader* r, int node) { return is_special(r, node, false); }

static int emit_repeat(struct automaton* x, const struct syntax_node* node, int next) {
	int at = next;
	if (is_special(x->r, node->a, true) && (node->most < 0 || node->most > 1))
		return reader_fail(x->r, "anchors and look-ahead within a repeat are not supported"), NOWHERE;
	if (node->most < 0) {
		at = loop(x, next);
		close_loop(x, at, emit(x, node->a, at));
	}
	for (int i = node->least; i < node->most && !x->r->failed; i++)
		at = split(x, emit(x, node->a, at), next);
	for (int i = 0; i < node->least && !x->r->failed; i++)
		at = emit(x, node->a, at);
	return at;
}

/* The parts of a sequence before the last ones are empty, or begin the text itself. */
static bool begins(const struct reader* r, int index) {
	for (; r->node[index].kind == NODE_SEQUENCE; index = r->node[index].a)
		if (r->node[r->node[index].b].kind != NODE_START && r->node[r->node[index].b].kind != NODE_LOOK_AHEAD)
			return false;
	return r->node[index].kind == NODE_EMPTY || r->node[index].kind == NODE_START;
}

static int emit_sequence(struct automaton* x, int index, int next) {
	const bool at_start = x->at_start;
	for (; x->r->node[index].kind == NODE_SEQUENCE && next != NOWHERE && !x->r->failed;
	     index = x->r->node[index].a) {
		const int part = x->r->node[index].b;
		x->at_start = at_start && begins(x->r, x->r->node[index].a);
		next = emit(x, part, next);
	}
	x->at_start = at_start;
	return next == NOWHERE ? NOWHERE : emit(x, index, next);
}

static int emit(struct automaton* x, int index, int next) {
	int all = NOWHERE;
	if (x->r->failed || next == NOWHERE)
		return NOWHERE;
	if (++x->r->work > MOST_WORK >> 4)
		return reader_fail(x->r, "with it the grammar is too large"), NOWHERE;
	for (; x->r->node[index].kind == NODE_EITHER; index = x->r->node[index].a)
		all = split(x, emit(x, x->r->node[index].b, next), all);
	const struct syntax_node node = x->r->node[index];
	switch (node.kind) {
	case NODE_SEQUENCE:
		return split(x, emit_sequence(x, index, next), all);
	case NODE_CLASS:
		if (node.a == node.b)
			return all;
		return split(x,
		             add_place(x,
		                       (struct expression_place){
		                           .kind = PLACE_CHARACTER, .a = node.a, .b = node.b, .next = next}),
		             all);
	case NODE_REPEAT:
		return split(x, emit_repeat(x, &node, next), all);
	case NODE_LOOK_AHEAD:
		return split(x, look_ahead(x, &node, next), all);
	case NODE_START:
		return x->at_start ? split(x, next, all) : all;
	case NODE_END:
		return split(x, narrowed(x, next, language_of_length(0, 0), true), all);
	default:
		return split(x, next, all);
	}
}

/* ---- the deterministic one -------------------------------------------------------------------- */

struct subset {
	int first, n; /* of its members */
	int32_t chain;
	bool ends;
};

struct subsets {
	struct automaton* x;
	struct subset* of; /* (n) */
	int n;
	int* member; /* (n_members) */
	int n_members;
	int32_t bucket[BUCKETS];
	int *stack, *mark; /* (places): being made */
	int made;          /* what marks this one */
	int* set;          /* (places) */
	int n_set;
	int64_t work;
};

static void add_member(struct subsets* s, int at) {
	int depth = 0;
	s->stack[depth++] = at;
	while (depth > 0) {
		const int i = s->stack[--depth];
		const struct expression_place* place = &s->x->place[i];
		if (s->mark[i] == s->made)
			continue;
		s->mark[i] = s->made;
		s->work++;
		if (place->kind != PLACE_SPLIT)
			s->set[s->n_set++] = i;
		else { /* each is pushed once, when it is marked */
			if (s->mark[place->other] != s->made)
				s->stack[depth++] = place->other;
			if (s->mark[place->next] != s->made)
				s->stack[depth++] = place->next;
		}
	}
}

static int compare(const void* a, const void* b) {
	const int x = *(const int*)a, y = *(const int*)b;
	return (x > y) - (x < y);
}

static int compare_bounds(const void* a, const void* b) {
	const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
	return (x > y) - (x < y);
}

/* The number of the set; NOWHERE: it is empty, or there is no room. */
static int intern(struct subsets* s, bool* good) {
	if (s->n_set == 0)
		return NOWHERE;
	qsort(s->set, (size_t)s->n_set, sizeof *s->set, compare);
	uint32_t key = 0;
	for (int i = 0; i < s->n_set; i++)
		key = (key ^ (uint32_t)s->set[i]) * 2654435761u;
	int32_t* bucket = &s->bucket[(key >> 8) % BUCKETS];
	for (int32_t i = *bucket; i > 0; i = s->of[i - 1].chain)
		if (s->of[i - 1].n == s->n_set &&
		    memcmp(s->member + s->of[i - 1].first, s->set, (size_t)s->n_set * sizeof *s->set) == 0)
			return i - 1;
	*good = *good && s->n < LANGUAGE_STATES && s->n_members + s->n_set <= MAX_MEMBERS &&
	        grow_by_one(&s->of, (size_t)s->n, sizeof *s->of);
	for (int i = 0; i < s->n_set && *good; i++)
		if ((*good = grow_by_one(&s->member, (size_t)s->n_members, sizeof *s->member)))
			s->member[s->n_members++] = s->set[i];
	if (!*good)
		return NOWHERE;
	s->of[s->n] =
	    (struct subset){.first = s->n_members - s->n_set,
	                    .n = s->n_set,
	                    .chain = *bucket,
	                    .ends = s->x->place[s->set[0]].kind == PLACE_END}; /* it is the first place */
	return *bucket = ++s->n, s->n - 1;
}

/* The sorted bounds of its characters' ranges. */
static uint32_t* bounds_of(const struct subsets* s, struct subset of, int* n) {
	const struct range* range = s->x->r->range;
	size_t most = 1;
	for (int i = 0; i < of.n; i++) {
		const struct expression_place* place = &s->x->place[s->member[of.first + i]];
		most += place->kind == PLACE_CHARACTER ? 2 * (size_t)(place->b - place->a) : 0;
	}
	uint32_t* bound = malloc(most * sizeof *bound);
	*n = 0;
	if (!bound)
		return NULL;
	bound[(*n)++] = 0;
	for (int i = 0; i < of.n; i++) {
		const struct expression_place* place = &s->x->place[s->member[of.first + i]];
		for (int j = place->a; place->kind == PLACE_CHARACTER && j < place->b; j++) {
			bound[(*n)++] = range[j].low;
			bound[(*n)++] = range[j].high + 1;
		}
	}
	qsort(bound, (size_t)*n, sizeof *bound, compare_bounds);
	int kept = 0;
	for (int i = 0; i < *n; i++)
		if (bound[i] <= LAST_CODE && (kept == 0 || bound[i] != bound[kept - 1]))
			bound[kept++] = bound[i];
	*n = kept;
	return bound;
}

static bool add_state(struct subsets* s, struct language* to, int state) {
	const struct subset of = s->of[state];
	int n;
	uint32_t* bound = bounds_of(s, of, &n);
	int* at = calloc((size_t)of.n, sizeof *at); /* (of.n) the range that each place has reached */
	bool good = bound && at;
	for (int i = 0; i < n && good; i++) {
		s->made++;
		s->n_set = 0;
		for (int j = 0; j < of.n; j++) {
			const struct expression_place* place = &s->x->place[s->member[of.first + j]];
			const struct range* range = s->x->r->range + place->a;
			if (place->kind != PLACE_CHARACTER)
				continue;
			while (at[j] < place->b - place->a && range[at[j]].high < bound[i])
				at[j]++;
			if (at[j] < place->b - place->a && range[at[j]].low <= bound[i])
				add_member(s, place->next);
		}
		s->work += of.n;
		const int target = intern(s, &good);
		good = good && s->work < MOST_WORK && language_edge(to, bound[i], target);
	}
	free(bound);
	free(at);
	return good && language_state(to, of.ends);
}

static struct language* determined(struct automaton* x, int start) {
	struct subsets s = {.x = x};
	struct language* to = language_open();
	bool good = to && !x->r->failed;
	if (good && start == NOWHERE)
		return language_close(to, true);
	s.stack = malloc((2 * (size_t)x->n + 2) * sizeof *s.stack);
	s.set = malloc(((size_t)x->n + 1) * sizeof *s.set);
	s.mark = calloc((size_t)x->n + 1, sizeof *s.mark);
	good = good && s.stack && s.set && s.mark;
	if (good) {
		s.made = 1;
		add_member(&s, start);
		intern(&s, &good);
	}
	for (int i = 0; i < s.n && good; i++)
		good = add_state(&s, to, i);
	free(s.stack);
	free(s.set);
	free(s.mark);
	free(s.of);
	free(s.member);
	to = language_smallest(language_close(to, good));
	if (!to && !x->r->failed)
		reader_fail(x->r, "with it the grammar is too large");
	return to;
}

struct language* expression_language(struct reader* r, int node, bool whole) {
	struct automaton x = {.r = r};
	add_place(&x, (struct expression_place){.kind = PLACE_END});
	const int after = whole ? 0 : anything(&x, 0);
	x.at_start = true;
	int start = emit(&x, node, after);
	if (!whole && !r->failed) {
		x.at_start = false;
		const int later = emit(&x, node, after), from = r->n_ranges;
		reader_range(r, 0, LAST_CODE);
		if (later != NOWHERE && !r->failed)
			start = split(&x,
			              add_place(&x, (struct expression_place){.kind = PLACE_CHARACTER,
			                                                      .a = from,
			                                                      .b = from + 1,
			                                                      .next = anything(&x, later)}),
			              start);
	}
	struct language* language = r->failed ? NULL : determined(&x, start);
	free(x.place);
	return language;
}
