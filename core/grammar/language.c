/* See language.h. */
#include "core/grammar/language.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"
#include "core/grammar/reader.h"

/* ---- making --------------------------------------------------------------------------------- */

void language_free(struct language* l) {
	if (!l)
		return;
	free(l->first);
	free(l->edge);
	free(l->ends);
	free(l);
}

struct language* language_open(void) {
	struct language* l = calloc(1, sizeof *l);
	if (l && grow_by_one(&l->first, 0, sizeof *l->first)) {
		l->first[0] = 0;
		return l;
	}
	language_free(l);
	return NULL;
}

bool language_edge(struct language* l, uint32_t low, int32_t to) {
	if (l->n_edges > l->first[l->n] && l->edge[l->n_edges - 1].to == to)
		return true;
	if (l->n_edges == LANGUAGE_EDGES || !grow_by_one(&l->edge, (size_t)l->n_edges, sizeof *l->edge))
		return false;
	l->edge[l->n_edges++] = (struct edge){low, to};
	return true;
}

bool language_state(struct language* l, bool ends) {
	if (l->n == LANGUAGE_STATES || !grow_by_one(&l->ends, (size_t)l->n, 1) ||
	    !grow_by_one(&l->first, (size_t)l->n + 1, sizeof *l->first))
		return false;
	l->ends[l->n++] = ends;
	l->first[l->n] = l->n_edges;
	return true;
}

/* (n) marks the states that lead to an end: those before a marked state, until none is added. */
static bool find_live(const struct language* l, uint8_t* live) {
	int32_t *count = calloc((size_t)l->n + 2, sizeof *count),
	        *from = malloc(((size_t)l->n_edges + 1) * sizeof *from),
	        *stack = malloc(((size_t)l->n + 1) * sizeof *stack);
	const bool good = count && from && stack;
	int depth = 0;
	for (int e = 0; e < l->n_edges && good; e++)
		if (l->edge[e].to >= 0)
			count[l->edge[e].to + 2]++;
	for (int s = 0; s < l->n && good; s++)
		count[s + 2] += count[s + 1];
	for (int s = 0; s < l->n && good; s++)
		for (int e = l->first[s]; e < l->first[s + 1]; e++)
			if (l->edge[e].to >= 0)
				from[count[l->edge[e].to + 1]++] = s;
	for (int s = 0; s < l->n && good; s++)
		if ((live[s] = l->ends[s]))
			stack[depth++] = s;
	while (good && depth > 0) {
		const int s = stack[--depth];
		for (int i = count[s]; i < count[s + 1]; i++)
			if (!live[from[i]]) {
				live[from[i]] = 1;
				stack[depth++] = from[i];
			}
	}
	free(count);
	free(from);
	free(stack);
	return good;
}

/* Keeps the states that `number` (n) gives a new number, in ascending order; NOWHERE: dropped. */
static struct language* renumber_states(struct language* l, const int32_t* number, bool good) {
	struct language* to = good ? language_open() : NULL;
	for (int s = 0, made = 0; s < l->n && to && good; s++) {
		if (number[s] != made)
			continue;
		for (int e = l->first[s]; e < l->first[s + 1] && good; e++)
			good = language_edge(to, l->edge[e].low, l->edge[e].to < 0 ? NOWHERE : number[l->edge[e].to]);
		good = good && language_state(to, l->ends[s]);
		made++;
	}
	language_free(l);
	if (good)
		return to;
	language_free(to);
	return NULL;
}

struct language* language_close(struct language* l, bool good) {
	uint8_t* live = l ? calloc((size_t)l->n + 1, 1) : NULL;
	int32_t* number = l ? malloc(((size_t)l->n + 1) * sizeof *number) : NULL;
	good = good && live && number && find_live(l, live);
	int n = 0;
	for (int s = 0; good && s < l->n; s++)
		number[s] = live[s] && live[0] ? n++ : NOWHERE;
	if (l)
		l = renumber_states(l, number, good);
	free(live);
	free(number);
	return l;
}

struct language* language_of_length(int least, int most) {
	struct language* l = language_open();
	const int last = most < 0 ? least : most;
	bool good = l != NULL;
	for (int s = 0; s <= last && good; s++)
		good = language_edge(l, 0,
		                     s < last   ? s + 1
		                     : most < 0 ? s
		                                : NOWHERE) &&
		       language_state(l, s >= least);
	return language_close(l, good);
}

struct language* language_all(void) {
	return language_of_length(0, -1);
}

struct language* language_of_text(const char* text) {
	struct language* l = language_open();
	size_t size = strlen(text);
	bool good = l != NULL;
	uint32_t code;
	for (size_t n; size > 0 && good; text += n, size -= n) {
		n = utf8_character(text, size, &code);
		good = n > 0 && (code == 0 || language_edge(l, 0, NOWHERE)) && language_edge(l, code, l->n + 1) &&
		       (code == LAST_CODE || language_edge(l, code + 1, NOWHERE)) && language_state(l, false);
	}
	good = good && language_edge(l, 0, NOWHERE) && language_state(l, true);
	return language_close(l, good);
}

int language_next(const struct language* l, int state, uint32_t code) {
	int e = l->first[state + 1] - 1;
	while (l->edge[e].low > code)
		e--;
	return l->edge[e].to;
}

bool language_takes(const struct language* l, const char* text) {
	size_t size = strlen(text);
	int at = l->n > 0 ? 0 : NOWHERE;
	uint32_t code;
	for (size_t n; size > 0 && at >= 0; text += n, size -= n) {
		if ((n = utf8_character(text, size, &code)) == 0)
			return false;
		at = language_next(l, at, code);
	}
	return at >= 0 && l->ends[at];
}

/* ---- product -------------------------------------------------------------------------------- */

struct pairs {
	struct {
		int32_t a, b, chain;
	} * of; /* (n) */
	int n;
	int32_t* bucket; /* (BUCKETS) */
};

enum { BUCKETS = 1 << 12 };

/* The pair's number; NOWHERE: no memory, or too many pairs. */
static int32_t pair_of(struct pairs* p, int32_t a, int32_t b) {
	int32_t* bucket = &p->bucket[((uint32_t)a * 2654435761u ^ (uint32_t)b * 40503u) % BUCKETS];
	for (int32_t i = *bucket; i > 0; i = p->of[i - 1].chain)
		if (p->of[i - 1].a == a && p->of[i - 1].b == b)
			return i - 1;
	if (p->n == LANGUAGE_STATES || !grow_by_one(&p->of, (size_t)p->n, sizeof *p->of))
		return NOWHERE;
	p->of[p->n].a = a;
	p->of[p->n].b = b;
	p->of[p->n].chain = *bucket;
	*bucket = ++p->n;
	return p->n - 1;
}

static bool product_accepts(enum language_product kind, bool a, bool b) {
	return kind == BOTH ? a && b : kind == EITHER ? a || b : a && !b;
}

/* The edges of state s. No state has one edge, to nowhere. */
static const struct edge nowhere = {0, NOWHERE};
static const struct edge* edges_of(const struct language* l, int32_t s, int* n) {
	*n = s < 0 ? 1 : l->first[s + 1] - l->first[s];
	return s < 0 ? &nowhere : l->edge + l->first[s];
}

static bool add_pair(struct language* to, struct pairs* p, const struct language* a, const struct language* b,
                     enum language_product kind, int at) {
	const int32_t of_a = p->of[at].a, of_b = p->of[at].b;
	int n, m, i = 0, j = 0;
	const struct edge *x = edges_of(a, of_a, &n), *y = edges_of(b, of_b, &m);
	for (uint32_t low = 0;;) {
		const bool possible = product_accepts(kind, x[i].to >= 0, kind != ONLY_FIRST && y[j].to >= 0);
		const int32_t pair = possible ? pair_of(p, x[i].to, y[j].to) : NOWHERE;
		if ((possible && pair < 0) || !language_edge(to, low, pair))
			return false;
		const uint32_t next_x = i + 1 < n ? x[i + 1].low : LAST_CODE + 1,
		               next_y = j + 1 < m ? y[j + 1].low : LAST_CODE + 1;
		low = next_x < next_y ? next_x : next_y;
		if (low > LAST_CODE)
			break;
		i += next_x == low;
		j += next_y == low;
	}
	return language_state(to, product_accepts(kind, of_a >= 0 && a->ends[of_a], of_b >= 0 && b->ends[of_b]));
}

struct language* language_product(const struct language* a, const struct language* b,
                                  enum language_product kind) {
	if (!a || !b)
		return NULL;
	struct pairs p = {.bucket = calloc(BUCKETS, sizeof *p.bucket)};
	struct language* to = language_open();
	bool good = to && p.bucket && pair_of(&p, a->n > 0 ? 0 : NOWHERE, b->n > 0 ? 0 : NOWHERE) == 0;
	for (int at = 0; good && at < p.n; at++)
		good = add_pair(to, &p, a, b, kind, at);
	free(p.of);
	free(p.bucket);
	return language_close(to, good);
}

/* ---- base64 --------------------------------------------------------------------------------- */

/* The state after an ASCII character; NOWHERE: none. */
static int32_t state_after(const struct language* l, int32_t s, uint32_t code) {
	return s < 0 || code > 0x7f ? NOWHERE : language_next(l, s, code);
}

/* Bits of a byte that are written but not yet whole: of 0, 6, 4 and 2 after each letter of four; the last two
 * are of padding. They are one number with the language's state: pair_of's second. */
enum { PENDING = 1 << 6, PHASES = 4, PAD_ONCE = PHASES * PENDING, WHOLE };

/* The target of a letter's value: the state of the language, and what is pending. */
static int32_t after_letter(const struct language* l, struct pairs* p, int32_t s, int phase, uint32_t bits,
                            uint32_t letter) {
	static const int whole[PHASES] = {0, 2, 4, 6}; /* bits of the letter that make a byte whole */
	const int rest = 6 - whole[phase];
	if (phase == 0)
		return pair_of(p, s, (int32_t)(PENDING + letter));
	const int32_t to = state_after(l, s, bits << whole[phase] | letter >> rest);
	const uint32_t left = letter & ((1u << rest) - 1);
	return to < 0 ? NOWHERE
	              : pair_of(p, to, phase == 3 ? 0 : (int32_t)((uint32_t)(phase + 1) * PENDING + left));
}

static uint32_t value_of_letter(uint32_t letter) {
	if (letter >= 'a')
		return letter - 'a' + 26;
	if (letter >= 'A' && letter <= 'Z')
		return letter - 'A';
	if (letter >= '0' && letter <= '9')
		return letter - '0' + 52;
	return letter == '_' || letter == '/' ? 63 : 62;
}

static bool add_base64_state(const struct language* l, struct language* to, struct pairs* p, int at,
                             bool url) {
	const char* const letters = url ? "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
	                                : "+/0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	const int32_t s = p->of[at].a, kind = p->of[at].b;
	const int phase = kind / PENDING;
	const uint32_t bits = (uint32_t)kind % PENDING;
	int32_t pad = NOWHERE;
	if (kind == PAD_ONCE || (kind < PAD_ONCE && phase >= 2 && bits == 0 && l->ends[s]))
		pad = pair_of(p, s, kind == PAD_ONCE || phase == 3 ? WHOLE : PAD_ONCE);
	bool good = language_edge(to, 0, NOWHERE), padded = false;
	for (const char* letter = letters; *letter && good; letter++) {
		const uint32_t code = (uint8_t)*letter;
		const uint32_t value = value_of_letter(code);
		if (code > '=' && !padded) {
			good = language_edge(to, '=', pad) && language_edge(to, '>', NOWHERE);
			padded = true;
		}
		const int32_t next = kind < PAD_ONCE ? after_letter(l, p, s, phase, bits, value) : NOWHERE;
		good = good && language_edge(to, code, next) &&
		       ((uint8_t)letter[1] == code + 1 || language_edge(to, code + 1, NOWHERE));
	}
	return good && language_state(to, kind == WHOLE || (kind == 0 && l->ends[s]));
}

struct language* language_in_base64(const struct language* l, bool url) {
	struct pairs p = {.bucket = calloc(BUCKETS, sizeof *p.bucket)};
	struct language* to = language_open();
	bool good = to && p.bucket && l->n > 0 && pair_of(&p, 0, 0) == 0;
	for (int at = 0; good && at < p.n; at++)
		good = p.n < LANGUAGE_STATES && add_base64_state(l, to, &p, at, url);
	free(p.of);
	free(p.bucket);
	return language_smallest(language_close(to, good));
}

/* ---- fewest states -------------------------------------------------------------------------- */

/* Moore's algorithm (1956): states are equal until an edge, or an end, separates them. */
enum { MOST_ROUNDS = 1 << 23 };

static bool states_match(const struct language* l, const int32_t* class, int a, int b) {
	int n, m, i = 0, j = 0;
	const struct edge *x = edges_of(l, a, &n), *y = edges_of(l, b, &m);
	if (class[a] != class[b])
		return false;
	for (;;) {
		if ((x[i].to < 0 ? NOWHERE : class[x[i].to]) != (y[j].to < 0 ? NOWHERE : class[y[j].to]))
			return false;
		const uint32_t next_x = i + 1 < n ? x[i + 1].low : LAST_CODE + 1,
		               next_y = j + 1 < m ? y[j + 1].low : LAST_CODE + 1;
		const uint32_t low = next_x < next_y ? next_x : next_y;
		if (low > LAST_CODE)
			return true;
		i += next_x == low;
		j += next_y == low;
	}
}

/* A hash of the classes that its edges lead to, whatever the number of bounds. */
static uint32_t compute_signature(const struct language* l, const int32_t* class, int s) {
	uint32_t key = (uint32_t) class[s], last = 0;
	for (int e = l->first[s]; e < l->first[s + 1]; e++) {
		const uint32_t to = l->edge[e].to < 0 ? 0 : (uint32_t) class[l->edge[e].to] + 1;
		if (e > l->first[s] && to == last)
			continue;
		key = (key ^ l->edge[e].low * 2654435761u ^ to) * 2246822519u;
		last = to;
	}
	return key;
}

struct language* language_smallest(struct language* l) {
	if (!l || l->n == 0)
		return l;
	int32_t* class = calloc((size_t)l->n, sizeof *class), *next = malloc((size_t)l->n * sizeof *next),
	         *chain = malloc((size_t)l->n * sizeof *chain), *bucket = malloc(BUCKETS * sizeof *bucket);
	const bool good = class && next && chain && bucket;
	int n = 1, before = 0;
	int64_t work = 0;
	for (int s = 0; s < l->n && good; s++) {
		class[s] = l->ends[s];
		n = l->ends[s] != l->ends[0] ? 2 : n;
	}
	while (good && n != before && work < MOST_ROUNDS) {
		before = n;
		n = 0;
		memset(bucket, 0xff, BUCKETS * sizeof *bucket);
		for (int s = 0; s < l->n; s++) {
			const uint32_t key = compute_signature(l, class, s) % BUCKETS;
			int other = bucket[key];
			while (other >= 0 && !states_match(l, class, other, s))
				other = chain[other];
			chain[s] = bucket[key];
			bucket[key] = s;
			next[s] = other >= 0 ? next[other] : n++;
		}
		memcpy(class, next, (size_t)l->n * sizeof *class);
		work += l->n_edges;
	}
	if (!good || n == before) /* else it was too much work: as it is */
		l = renumber_states(l, class, good);
	free(class);
	free(next);
	free(chain);
	free(bucket);
	return l;
}

/* ---- emission ------------------------------------------------------------------------------- */

void class_rules_close(struct class_rules* rules) {
	for (int i = 0; i < rules->n; i++)
		free(rules->of[i].bound);
	free(rules->of);
}

/* Characters that stand for themselves in any text. */
static bool is_plain(uint32_t low, uint32_t past) {
	return low >= 0x20 && past <= 0x7f && (low > '"' || past <= '"') && (low > '\\' || past <= '\\') &&
	       (low > '/' || past <= '/');
}

/* Emits one of the characters; a set of many becomes a rule. */
static int32_t emit_class(struct grammar* g, const uint32_t* bound, int n, character_emitter* characters,
                          struct class_rules* rules, int32_t next) {
	bool plain = n <= 8;
	for (int i = 0; i < n; i += 2)
		plain = plain && is_plain(bound[i], bound[i + 1]);
	if (plain || !rules)
		return characters(g, bound, n, next);
	for (int i = 0; i < rules->n; i++)
		if (rules->of[i].n == n && memcmp(rules->of[i].bound, bound, (size_t)n * sizeof *bound) == 0)
			return emit_call(g, rules->of[i].rule, next);
	uint32_t* kept = malloc((size_t)n * sizeof *kept);
	if (!kept || !grow_by_one(&rules->of, (size_t)rules->n, sizeof *rules->of)) {
		free(kept);
		g->failed = true;
		return NOWHERE;
	}
	memcpy(kept, bound, (size_t)n * sizeof *kept);
	const int rule = program_rule(g);
	rules->of[rules->n++] = (struct class_rule){.rule = rule, .n = n, .bound = kept};
	const int32_t start = characters(g, bound, n, RETURNS);
	if (!g->failed)
		g->rule[rule] = start;
	return emit_call(g, rule, next);
}

/* (n) characters from each state to the nearest end. False on no memory. */
static bool find_distances(const struct language* l, int32_t* distance) {
	bool changed = true;
	for (int s = 0; s < l->n; s++)
		distance[s] = l->ends[s] ? 0 : LANGUAGE_STATES;
	while (changed) {
		changed = false;
		for (int s = l->n; s-- > 0;)
			for (int e = l->first[s]; e < l->first[s + 1]; e++)
				if (l->edge[e].to >= 0 && distance[l->edge[e].to] + 1 < distance[s]) {
					distance[s] = distance[l->edge[e].to] + 1;
					changed = true;
				}
	}
	return true;
}

/* The longest way grows with each round of edges. More rounds than states mean a circle. */
int language_longest(const struct language* l) {
	int32_t* longest = calloc((size_t)l->n + 1, sizeof *longest);
	bool changed = longest && l->n > 0;
	int rounds = 0;
	for (; changed && rounds <= l->n && rounds < 4096; rounds++) {
		changed = false;
		for (int s = l->n; s-- > 0;)
			for (int e = l->first[s]; e < l->first[s + 1]; e++)
				if (l->edge[e].to >= 0 && longest[l->edge[e].to] + 1 > longest[s]) {
					longest[s] = longest[l->edge[e].to] + 1;
					changed = true;
				}
	}
	const int most = longest && !changed ? longest[0] : NOWHERE;
	free(longest);
	return most;
}

/* Emits the edges from a state to one of its targets, each target once. bound: room for 2 an edge. distance:
 * of each target, where characters are counted; NULL: they are not. They are counted before their first byte,
 * because no text may begin a character for which there is no room. */
static int32_t emit_state(struct grammar* g, const struct language* l, int s, const int32_t* at,
                          const int32_t* distance, uint32_t* bound, character_emitter* characters,
                          struct class_rules* rules) {
	const int from = l->first[s], to = l->first[s + 1];
	int32_t all = NOWHERE;
	for (int e = from; e < to; e++) {
		bool first = l->edge[e].to >= 0;
		int n = 0;
		for (int i = from; i < e && first; i++)
			first = l->edge[i].to != l->edge[e].to;
		for (int i = e; i < to && first; i++)
			if (l->edge[i].to == l->edge[e].to) {
				bound[n++] = l->edge[i].low;
				bound[n++] = i + 1 < to ? l->edge[i + 1].low : LAST_CODE + 1;
			}
		if (n == 0)
			continue;
		const int to_state = l->edge[e].to;
		const int32_t one = emit_class(g, bound, n, characters, rules, at[to_state]);
		all = emit_split(g, distance ? emit_step(g, distance[to_state], one) : one, all);
	}
	return all;
}

int32_t language_emit(struct grammar* g, const struct language* l, character_emitter* characters,
                      struct class_rules* rules, int most, int32_t next) {
	const size_t room = (size_t)l->n + 1;
	int32_t *at = malloc(room * sizeof *at), *distance = malloc(room * sizeof *distance);
	uint32_t* bound = malloc((2 * (size_t)l->n_edges + 1) * sizeof *bound);
	const int32_t end = most < 0 || next == NOWHERE ? next : emit_finish(g, next);
	int32_t start = NOWHERE;
	g->failed = g->failed || !at || !distance || !bound;
	if (!g->failed)
		find_distances(l, distance);
	for (int s = 0; s < l->n && !g->failed; s++)
		at[s] = emit_loop(g, end);
	for (int s = 0; s < l->n && !g->failed; s++) {
		const int32_t body = emit_state(g, l, s, at, most < 0 ? NULL : distance, bound, characters, rules);
		if (g->failed)
			break;
		g->at[at[s]].next = body == NOWHERE ? end : body;
		g->at[at[s]].other = l->ends[s] ? end : g->at[at[s]].next;
	}
	if (l->n > 0 && !g->failed && next != NOWHERE && (most < 0 || distance[0] <= most))
		start = most < 0 ? at[0] : emit_begin(g, most, at[0]);
	free(at);
	free(distance);
	free(bound);
	return start;
}
