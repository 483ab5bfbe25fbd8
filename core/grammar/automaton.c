/* Makes an automaton deterministic by the subset construction (Rabin and Scott 1959). A member of a subset is
 * a place and what it owes: look-aheads that the rest of the text still has to keep, each a language at a
 * state. A subset also has the states of the languages that read the text before. */
#include "core/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"

enum { MAX_ITEMS = 1 << 22, BUCKETS = 1 << 12, MAX_OWED = 16, GONE = 255, NOTHING = 0 };
/* Rests are looked up one by one, and their numbers times LANGUAGE_STATES stay within an int. */
enum { MOST_WORK = 1 << 25, MOST_RESTS = 1 << 12 };

/* ---- lists of numbers, each kept once ----------------------------------------------------------- */

struct lists {
	struct {
		int first, n;
		int32_t chain;
	} * of; /* (n) */
	int n;
	int* item; /* (n_items) */
	int n_items;
	int32_t bucket[BUCKETS];
};

/* The list's number; NOWHERE: there is no room. */
static int number_of(struct lists* l, const int* item, int n) {
	uint32_t key = 0;
	for (int i = 0; i < n; i++)
		key = (key ^ (uint32_t)item[i]) * 2654435761u;
	int32_t* bucket = &l->bucket[(key >> 8) % BUCKETS];
	for (int32_t i = *bucket; i > 0; i = l->of[i - 1].chain)
		if (l->of[i - 1].n == n &&
		    (n == 0 || memcmp(l->item + l->of[i - 1].first, item, (size_t)n * sizeof *item) == 0))
			return i - 1;
	bool good = l->n_items + n <= MAX_ITEMS && grow_by_one(&l->of, (size_t)l->n, sizeof *l->of);
	const int first = l->n_items;
	for (int i = 0; i < n && good; i++)
		if ((good = grow_by_one(&l->item, (size_t)l->n_items, sizeof *l->item)))
			l->item[l->n_items++] = item[i];
	if (!good)
		return NOWHERE;
	l->of[l->n].first = first;
	l->of[l->n].n = n;
	l->of[l->n].chain = *bucket;
	*bucket = ++l->n;
	return l->n - 1;
}

static void lists_free(struct lists* l) {
	free(l->of);
	free(l->item);
}

/* ---- the text before, and the rest --------------------------------------------------------------- */

static int before_at(uint64_t before, int i) { return (int)(before >> (8 * i) & 255); }

uint64_t automaton_begin(const struct automaton* x) {
	uint64_t before = 0;
	for (int i = 0; i < x->n_before; i++)
		before |= (uint64_t)(x->before[i]->n > 0 ? 0 : GONE) << (8 * i);
	return before;
}

static uint64_t before_after(const struct automaton* x, uint64_t before, uint32_t code) {
	uint64_t after = 0;
	for (int i = 0; i < x->n_before; i++) {
		const int s = before_at(before, i), to = s == GONE ? NOWHERE : language_next(x->before[i], s, code);
		after |= (uint64_t)(to < 0 ? GONE : to) << (8 * i);
	}
	return after;
}

static bool before_holds(const struct automaton* x, uint64_t before, int i) {
	const int s = before_at(before, i);
	return s != GONE && x->before[i]->ends[s];
}

/* True if every text is right from this state on. */
static bool is_all(const struct language* l, int s) {
	return l->ends[s] && l->first[s + 1] - l->first[s] == 1 && l->edge[l->first[s]].to == s;
}

/* The number of the language that the rest has to keep; NOWHERE with the reader failed. */
static int rest_of(struct automaton* x, const struct automaton_place* place, uint64_t before) {
	const int start = place->a;
	const bool must = place->b;
	if (!place->other)
		before = automaton_begin(x); /* the text before makes no difference */
	for (int i = 0; i < x->n_rests; i++)
		if (x->rest[i].start == start && x->rest[i].must == must && x->rest[i].before == before)
			return i;
	struct language* of = automaton_language(x, start, before);
	if (of && !must) {
		struct language *all = language_all(),
		                *others = language_smallest(language_product(all, of, ONLY_FIRST));
		language_free(all);
		language_free(of);
		of = others;
	}
	if (!of || x->n_rests >= MOST_RESTS || !grow_by_one(&x->rest, (size_t)x->n_rests, sizeof *x->rest)) {
		language_free(of);
		return reader_fail(x->r, "this part makes the grammar too large"), NOWHERE;
	}
	x->rest[x->n_rests] = (struct rest){start, must, before, of};
	return x->n_rests++;
}

void automaton_close(struct automaton* x) {
	for (int i = 0; i < x->n_before; i++)
		language_free(x->before[i]);
	for (int i = 0; i < x->n_rests; i++)
		language_free(x->rest[i].of);
	free(x->rest);
	free(x->place);
}

/* ---- members ------------------------------------------------------------------------------------- */

struct subsets {
	struct automaton* x;
	struct lists owed;   /* numbers of rests, each times LANGUAGE_STATES plus its state; list 0 is empty */
	struct lists member; /* a place, a list of `owed` */
	struct lists subset; /* two halves of `before`, then members in ascending order */
	int* mark;           /* (n_marks) of each member: the last subset that it was reached in */
	int n_marks, made;
	int *stack, depth; /* members reached, whose place is still to be followed */
	int *set, n_set;   /* two halves of `before`, then members that wait for a character or the end */
	bool good;
};

static bool push_place(int** array, int* n, int value, bool good) {
	good = good && grow_by_one(array, (size_t)*n, sizeof **array);
	if (good)
		(*array)[(*n)++] = value;
	return good;
}

static void reach_places(struct subsets* s, int place, int owed) {
	const int member = owed < 0 ? NOWHERE : number_of(&s->member, (const int[]){place, owed}, 2);
	s->good = s->good && member >= 0;
	while (s->good && s->n_marks <= member)
		s->good = push_place(&s->mark, &s->n_marks, 0, true);
	if (!s->good || s->mark[member] == s->made)
		return;
	s->mark[member] = s->made;
	s->x->work++;
	s->good = push_place(&s->stack, &s->depth, member, true);
}

/* The list with one more; NOWHERE: there is no room. */
static int owed_with(struct subsets* s, int owed, int more) {
	int item[MAX_OWED + 1], n = 0;
	bool put = false;
	for (int i = 0; i < s->owed.of[owed].n; i++) {
		const int one = s->owed.item[s->owed.of[owed].first + i];
		if (one == more)
			return owed;
		if (one > more && !put) {
			item[n++] = more;
			put = true;
		}
		item[n++] = one;
	}
	if (!put)
		item[n++] = more;
	return n > MAX_OWED ? NOWHERE : number_of(&s->owed, item, n);
}

static void follow_ahead(struct subsets* s, const struct automaton_place* place, int owed, uint64_t before) {
	const int next = place->next, i = rest_of(s->x, place, before);
	if (i < 0) {
		s->good = false;
		return;
	}
	const struct language* l = s->x->rest[i].of;
	if (l->n > 0)
		reach_places(s, next, is_all(l, 0) ? owed : owed_with(s, owed, i * LANGUAGE_STATES));
}

/* Follows all that needs no character. */
static void follow_place(struct subsets* s, uint64_t before) {
	while (s->depth > 0 && s->good) {
		const int member = s->stack[--s->depth];
		const int at = s->member.item[s->member.of[member].first],
		          owed = s->member.item[s->member.of[member].first + 1];
		const struct automaton_place place = s->x->place[at];
		if (place.kind == PLACE_SPLIT) {
			reach_places(s, place.other, owed);
			reach_places(s, place.next, owed);
		} else if (place.kind == PLACE_AHEAD)
			follow_ahead(s, &place, owed, before);
		else if (place.kind != PLACE_BEFORE)
			s->good = push_place(&s->set, &s->n_set, member, true);
		else if (before_holds(s->x, before, place.a) == (place.b != 0))
			reach_places(s, place.next, owed);
	}
}

static int compare_members(const void* a, const void* b) {
	const int x = *(const int*)a, y = *(const int*)b;
	return (x > y) - (x < y);
}

static void begin_set(struct subsets* s, uint64_t before) {
	s->made++;
	s->n_set = s->depth = 0;
	s->good = push_place(&s->set, &s->n_set, (int)(uint32_t)before, s->good);
	s->good = push_place(&s->set, &s->n_set, (int)(uint32_t)(before >> 32), s->good);
}

/* The number of the set; NOWHERE: it is empty, or there is no room. */
static int end_set(struct subsets* s) {
	if (!s->good || s->n_set == 2)
		return NOWHERE;
	qsort(s->set + 2, (size_t)s->n_set - 2, sizeof *s->set, compare_members);
	const int number = number_of(&s->subset, s->set, s->n_set);
	s->good = number >= 0 && s->subset.n <= LANGUAGE_STATES;
	return s->good ? number : NOWHERE;
}

/* ---- states -------------------------------------------------------------------------------------- */

static int compare_bounds(const void* a, const void* b) {
	const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
	return (x > y) - (x < y);
}

struct bounds {
	uint32_t* of; /* (n) */
	int n;
	bool good;
};

static void add_bound(struct bounds* b, uint32_t bound) {
	b->good = b->good && grow_by_one(&b->of, (size_t)b->n, sizeof *b->of);
	if (b->good)
		b->of[b->n++] = bound;
}

static void add_edges(struct bounds* b, const struct language* l, int state) {
	for (int e = l->first[state]; e < l->first[state + 1]; e++)
		add_bound(b, l->edge[e].low);
}

struct set_member {
	int place, owed;
};

static struct set_member member_at(const struct subsets* s, int subset, int i) {
	const int* item = s->member.item + s->member.of[s->subset.item[s->subset.of[subset].first + 2 + i]].first;
	return (struct set_member){item[0], item[1]};
}

static uint64_t before_of(const struct subsets* s, int subset) {
	const int* item = s->subset.item + s->subset.of[subset].first;
	return (uint64_t)(uint32_t)item[0] | (uint64_t)(uint32_t)item[1] << 32;
}

/* The characters at which something changes for one of a subset's members, in ascending order. */
static struct bounds bounds_of(const struct subsets* s, int subset) {
	const struct automaton* x = s->x;
	struct bounds b = {.good = true};
	const uint64_t before = before_of(s, subset);
	add_bound(&b, 0);
	for (int i = 0; i < x->n_before; i++)
		if (before_at(before, i) != GONE)
			add_edges(&b, x->before[i], before_at(before, i));
	for (int i = 0; i < s->subset.of[subset].n - 2; i++) {
		const struct set_member m = member_at(s, subset, i);
		const struct automaton_place* place = &x->place[m.place];
		if (place->kind != PLACE_CHARACTER)
			continue;
		for (int j = place->a; j < place->b; j++) {
			add_bound(&b, x->r->range[j].low);
			add_bound(&b, x->r->range[j].high + 1);
		}
		for (int j = 0; j < s->owed.of[m.owed].n; j++) {
			const int one = s->owed.item[s->owed.of[m.owed].first + j];
			add_edges(&b, x->rest[one / LANGUAGE_STATES].of, one % LANGUAGE_STATES);
		}
	}
	if (b.good)
		qsort(b.of, (size_t)b.n, sizeof *b.of, compare_bounds);
	int kept = 0;
	for (int i = 0; i < b.n && b.good; i++)
		if (b.of[i] <= LAST_CODE && (kept == 0 || b.of[i] != b.of[kept - 1]))
			b.of[kept++] = b.of[i];
	b.n = kept;
	return b;
}

/* What is owed after a character; NOWHERE: it cannot be kept. */
static int owed_after(struct subsets* s, int owed, uint32_t code) {
	int after = NOTHING;
	for (int i = 0; i < s->owed.of[owed].n && after >= 0; i++) {
		const int one = s->owed.item[s->owed.of[owed].first + i];
		const struct language* l = s->x->rest[one / LANGUAGE_STATES].of;
		const int to = language_next(l, one % LANGUAGE_STATES, code);
		if (to < 0)
			return NOWHERE;
		if (is_all(l, to))
			continue;
		after = owed_with(s, after, one - one % LANGUAGE_STATES + to);
		s->good = s->good && after >= 0;
	}
	return after;
}

static bool has_ended(const struct subsets* s, struct set_member m) {
	bool ended = s->x->place[m.place].kind == PLACE_END;
	for (int i = 0; i < s->owed.of[m.owed].n && ended; i++) {
		const int one = s->owed.item[s->owed.of[m.owed].first + i];
		ended = s->x->rest[one / LANGUAGE_STATES].of->ends[one % LANGUAGE_STATES];
	}
	return ended;
}

static bool add_state(struct subsets* s, struct language* to, int subset) {
	const int n = s->subset.of[subset].n - 2;
	const uint64_t before = before_of(s, subset);
	struct bounds b = bounds_of(s, subset);
	int* at = calloc((size_t)n + 1, sizeof *at); /* (n) the range that each member has reached */
	bool good = b.good && at, ends = false;
	for (int i = 0; i < b.n && good; i++) {
		const uint64_t after = s->x->n_before ? before_after(s->x, before, b.of[i]) : 0;
		begin_set(s, after);
		for (int j = 0; j < n; j++) {
			const struct set_member m = member_at(s, subset, j);
			const struct automaton_place place = s->x->place[m.place];
			const struct range* range = s->x->r->range + place.a;
			if (place.kind != PLACE_CHARACTER)
				continue;
			while (at[j] < place.b - place.a && range[at[j]].high < b.of[i])
				at[j]++;
			if (at[j] == place.b - place.a || range[at[j]].low > b.of[i])
				continue;
			const int owed = owed_after(s, m.owed, b.of[i]);
			if (owed >= 0)
				reach_places(s, place.next, owed);
		}
		follow_place(s, after);
		s->x->work += n;
		const int target = end_set(s);
		good = s->good && s->x->work < MOST_WORK && language_edge(to, b.of[i], target);
	}
	for (int j = 0; j < n && good && !ends; j++)
		ends = has_ended(s, member_at(s, subset, j));
	free(b.of);
	free(at);
	return good && language_state(to, ends);
}

struct language* automaton_language(struct automaton* x, int start, uint64_t before) {
	struct language* to = language_open();
	struct subsets* s = calloc(1, sizeof *s);
	bool good = to && s && !x->r->failed;
	if (good && start != NOWHERE) {
		s->x = x;
		s->good = number_of(&s->owed, NULL, 0) == NOTHING;
		begin_set(s, before);
		reach_places(s, start, NOTHING);
		follow_place(s, before);
		end_set(s);
		good = s->good;
		for (int i = 0; i < s->subset.n && good; i++)
			good = add_state(s, to, i);
	}
	if (s) {
		lists_free(&s->owed);
		lists_free(&s->member);
		lists_free(&s->subset);
		free(s->mark);
		free(s->stack);
		free(s->set);
	}
	free(s);
	to = language_smallest(language_close(to, good));
	if (!to && !x->r->failed)
		reader_fail(x->r, "this part makes the grammar too large");
	return to;
}
