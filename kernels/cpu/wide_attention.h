/* Attention for processors with wide registers, written over the vector type of the including file
 * (kernels/cpu/wide.h).
 *
 * TILE_HEADS × TILE_CHUNKS accumulators fit the registers. So do TILE_QUERIES × KEY_VECTORS, and for up to
 * PAIR_QUERIES the keys of PAGES_AT_ONCE pages. Halves and bytes have to be widened to floats, which takes as
 * long as two or three multiply-adds. So if a call has several tiles of queries, then a page's keys, and
 * a block's values, are widened into memory once for all of them. */
#pragma once

#include "kernels/cpu/key_layout.h"

enum {
	MAX_HEAD_DIM = 1024,
	KEY_VECTORS = PAGE_SLOTS / LANES, /* of a dimension of a page's keys */
	PAIR_QUERIES = 3,
	TILE_SUMS = KEY_VECTORS *
	            (TILE_QUERIES > PAIR_QUERIES * PAGES_AT_ONCE ? TILE_QUERIES : PAIR_QUERIES * PAGES_AT_ONCE),
	FETCHED = 2 * PAGE_SLOTS, /* positions ahead */
	WIDE_POSITIONS = 64,      /* of a block of widened values, which a core's first cache holds */
	WIDE_DIMS = TILE_CHUNKS * LANES
};

static inline const unsigned char* row_at(const struct attention_row* a, size_t rows, int position) {
	const unsigned slot = (unsigned)(position < a->base ? position : a->ancestor[position - a->base]);
	return a->page[slot / PAGE_SLOTS] + rows + slot % PAGE_SLOTS * a->slot_bytes;
}

/* How many of the positions [p, end) are slots of one page in order, p's first. */
static inline int side_by_side(const struct attention_row* a, int p, int end) {
	return p < a->base ? smaller(smaller(end, a->base) - p, PAGE_SLOTS - p % PAGE_SLOTS) : 1;
}

__attribute__((always_inline)) static inline vec load_chunk(enum dtype type, const unsigned char* row, int at,
                                                            int n) {
	if (type == DTYPE_F16) {
		const uint16_t* half = (const uint16_t*)(const void*)row + at;
		return n >= LANES ? vec_load_half(half) : vec_load_half_part(half, n);
	}
	if (type == DTYPE_Q8_0) { /* whole blocks, which LANES divides */
		const struct block_q8_0* block = (const struct block_q8_0*)(const void*)row + at / 32;
		return vec_mul(vec_load_bytes(block->q + at % 32), vec_set(half_to_float(load_u16(block->d))));
	}
	const float* x = (const float*)(const void*)row + at;
	return n >= LANES ? vec_load(x) : vec_load_part(x, n, 0);
}

/* Pages lie apart, which the processor's own fetching does not see: where the slot lies that is FETCHED
 * positions behind this one, or this one where there is none. A few lines at a time are fetched: more than
 * the processor can wait for would make it wait. */
static inline const unsigned char* row_ahead(const struct attention_row* a, size_t rows, int position) {
	return row_at(a, rows, position + FETCHED < a->base ? position + FETCHED : position);
}

__attribute__((always_inline)) static inline void fetch(const unsigned char* at, size_t bytes) {
	for (size_t i = 0; i < bytes; i += 64)
		__builtin_prefetch(at + i, 0, 2);
}

/* Loads LANES keys of dimension d from slot `at` on. */
__attribute__((always_inline)) static inline vec load_keys(enum dtype type, const unsigned char* keys,
                                                           int head_dim, int at, int d) {
	const unsigned char* element = keys + key_at(type, head_dim, at, d);
	if (type == DTYPE_F16)
		return vec_load_half((const uint16_t*)(const void*)element);
	if (type == DTYPE_F32)
		return vec_load((const float*)(const void*)element);
	const unsigned char* scale = keys + key_scale_at(at, d / KEY_BLOCK);
	return vec_mul(vec_load_bytes((const int8_t*)element),
	               vec_load_half((const uint16_t*)(const void*)scale));
}

/* sum (count, pages, KEY_VECTORS) = the products of `count` queries with the keys of some pages: each is one
 * chain over the dimensions, so that it does not matter which keys and queries stand beside it. A widened
 * key serves all queries from the register; type, count and pages are constants where it is
 * called. Of the keys `ahead` so many dimensions are fetched, `line` bytes each. */
__attribute__((always_inline)) static inline void dots(enum dtype type, const float* const q[],
                                                       const unsigned char* const key[],
                                                       const unsigned char* const ahead[], int fetched,
                                                       size_t line, int head_dim, int count, int pages,
                                                       vec* out) {
	vec sum[TILE_SUMS];
#pragma GCC unroll 24
	for (int i = 0; i < count * pages * KEY_VECTORS; i++)
		sum[i] = vec_set(0);
	for (int d = 0; d < head_dim; d++) {
		vec x[TILE_QUERIES];
#pragma GCC unroll 8
		for (int j = 0; j < count; j++)
			x[j] = vec_set(q[j][d]);
#pragma GCC unroll 2
		for (int p = 0; p < pages; p++) {
			if (d < fetched)
				fetch(ahead[p] + (size_t)d * line, line);
#pragma GCC unroll 4
			for (int i = 0; i < KEY_VECTORS; i++) {
				const vec k = load_keys(type, key[p], head_dim, i * LANES, d);
#pragma GCC unroll 8
				for (int j = 0; j < count; j++) {
					vec* at = &sum[(j * pages + p) * KEY_VECTORS + i];
					*at = vec_fma(x[j], k, *at);
				}
			}
		}
	}
#pragma GCC unroll 24
	for (int i = 0; i < count * pages * KEY_VECTORS; i++)
		out[i] = sum[i];
}

static inline int end_of(const struct attention_row* a) { return a->base + a->n_ancestors; }

static inline int larger(int a, int b) { return a > b ? a : b; }

/* The part of a chunk that the rows of a call see. */
struct common {
	int start, end;   /* of the positions that any of them sees; start is a multiple of PAGE_SLOTS */
	int from, shared; /* [from, shared): seen by all, at the same slots; empty: both are start */
	int solid;        /* positions that are shared, and lie at slots of their own number */
};

static struct common in_common(const struct attention_bundle* bundle, int chunk) {
	const struct attention_row* a = bundle->row;
	int least = a->from, most = a->from, end = end_of(a);
	for (int i = 1; i < bundle->n; i++) {
		least = smaller(least, a[i].from);
		most = larger(most, a[i].from);
		end = larger(end, end_of(a + i));
	}
	struct common c = {.start = larger(least / PAGE_SLOTS * PAGE_SLOTS, chunk * ATTENTION_CHUNK),
	                   .end = smaller(end, (chunk + 1) * ATTENTION_CHUNK)};
	c.shared = smaller(a->base + bundle->same, c.end);
	c.solid = smaller(c.shared, a->base + bundle->in_place);
	c.from = larger(most, c.start);
	if (c.from >= c.shared)
		c.from = c.shared = c.start;
	return c;
}

/* Queries whose scores of a page's keys, or of two pages', are computed together, and where those go. */
struct scored {
	const struct attention_row* row;
	const float* q;
	float* to;
};

/* -infinity of the positions [first, first + n) that the row does not look at. */
static void hide(const struct attention_row* a, int first, int n, float* score) {
	for (int i = 0; i < n && first + i < a->from; i++)
		score[i] = -INFINITY;
	for (int i = end_of(a) > first ? end_of(a) - first : 0; i < n; i++)
		score[i] = -INFINITY;
}

/* scale·q·k of the keys of some pages from position `first` on, softcapped. */
__attribute__((always_inline)) static inline void
score_tile(enum dtype type, const struct scored* s, int count, int pages, const unsigned char* const key[],
           int first, const unsigned char* const ahead[], int fetched) {
	const size_t line = PAGE_SLOTS * key_width(s->row->type);
	const float* q[TILE_QUERIES];
	vec sum[TILE_SUMS];
#pragma GCC unroll 8
	for (int j = 0; j < count; j++)
		q[j] = s[j].q;
	dots(type, q, key, ahead, fetched, line, s->row->head_dim, count, pages, sum);
	for (int j = 0; j < count; j++) {
		const struct attention_row* a = s[j].row;
		for (int i = 0; i < pages * KEY_VECTORS; i++) {
			vec score = vec_mul(sum[j * pages * KEY_VECTORS + i], vec_set(a->scale));
			if (a->softcap > 0)
				score = vec_softcap(score, a->softcap);
			vec_store(s[j].to + i * LANES, score);
		}
		if (first < a->from || first + pages * PAGE_SLOTS > end_of(a))
			hide(a, first, pages * PAGE_SLOTS, s[j].to);
	}
}

#define SCORE_ONE(type, n, pages)                                                                            \
	case n:                                                                                                  \
		score_tile(type, s, n, pages, key, first, ahead, fetched);                                           \
		break
#if TILE_QUERIES > 3
#define SCORE_MORE(type)                                                                                     \
	SCORE_ONE(type, 4, 1);                                                                                   \
	SCORE_ONE(type, 5, 1);                                                                                   \
	SCORE_ONE(type, 6, 1);                                                                                   \
	SCORE_ONE(type, 7, 1);                                                                                   \
	SCORE_ONE(type, 8, 1);
#else
#define SCORE_MORE(type)
#endif

/* For each number of queries code of its own, and for one to three where two pages fill the registers. */
#define DEFINE_SCORE(name, type)                                                                             \
	static void name(const struct scored* s, int count, int pages, const unsigned char* const key[],         \
	                 int first, const unsigned char* const ahead[], int fetched) {                           \
		if (pages == PAGES_AT_ONCE)                                                                          \
			switch (count) {                                                                                 \
				SCORE_ONE(type, 1, PAGES_AT_ONCE);                                                           \
				SCORE_ONE(type, 2, PAGES_AT_ONCE);                                                           \
				SCORE_ONE(type, 3, PAGES_AT_ONCE);                                                           \
				SCORE_MORE(type)                                                                             \
			}                                                                                                \
		else                                                                                                 \
			switch (count) {                                                                                 \
				SCORE_ONE(type, 1, 1);                                                                       \
				SCORE_ONE(type, 2, 1);                                                                       \
				SCORE_ONE(type, 3, 1);                                                                       \
				SCORE_MORE(type)                                                                             \
			}                                                                                                \
	}
DEFINE_SCORE(score_half, DTYPE_F16)
DEFINE_SCORE(score_float, DTYPE_F32)
DEFINE_SCORE(score_bytes, DTYPE_Q8_0)

/* Keys that are values lie in rows: those of the positions [first, end) by dimension. */
static void turn_rows(const struct attention_row* a, int first, int end, unsigned char* keys) {
	memset(keys, 0, PAGE_SLOTS * a->slot_bytes);
	for (int p = first; p < end; p++)
		key_put(a->type, keys, p - first, row_at(a, a->key, p), a->head_dim);
}

/* True if positions [from, end), of ancestors, lie at slots of their own number. */
static bool in_place(const struct attention_row* a, int from, int end) {
	while (from < end && a->ancestor[from - a->base] == from)
		from++;
	return from == end;
}

/* The keys of positions [first, first + PAGE_SLOTS): as they lie in their page, where the row finds all of
 * them that it sees there at their own slots, else gathered. */
static const unsigned char* find_keys(const struct attention_row* a, int first, unsigned char* gathered) {
	const int end = smaller(first + PAGE_SLOTS, end_of(a)), pending = larger(first, a->base);
	if (a->key == a->value) {
		turn_rows(a, first, end, gathered);
		return gathered;
	}
	if (pending >= end || in_place(a, pending, end))
		return a->page[first / PAGE_SLOTS] + a->key;
	if (first < a->base)
		memcpy(gathered, a->page[first / PAGE_SLOTS] + a->key, PAGE_SLOTS * a->slot_bytes);
	else
		memset(gathered, 0, PAGE_SLOTS * a->slot_bytes);
	for (int p = pending; p < end; p++) {
		const int slot = a->ancestor[p - a->base];
		key_copy(a->type, gathered, p - first, a->page[slot / PAGE_SLOTS] + a->key, slot % PAGE_SLOTS,
		         a->head_dim);
	}
	return gathered;
}

/* wide (head_dim, PAGE_SLOTS) = a page's keys as floats */
__attribute__((always_inline)) static inline void widen_keys(enum dtype type, const unsigned char* keys,
                                                             int head_dim, float* wide) {
	for (int d = 0; d < head_dim; d++)
#pragma GCC unroll 4
		for (int i = 0; i < PAGE_SLOTS; i += LANES)
			vec_store(wide + d * PAGE_SLOTS + i, load_keys(type, keys, head_dim, i, d));
}

/* Scores of n rows' queries with the keys of one or more pages from position `first` on, in tiles as even as
 * they can be. Theirs begin at `to`, CHUNK_SCORES floats apart. wide: memory for a page's keys as floats. */
static void score_pages(const struct attention_row* a, int n, const float* q, size_t row_stride,
                        const unsigned char* const key[], int pages, int first,
                        const unsigned char* const ahead[], float* to, float* wide) {
	const int queries = n * a->group, tiles = (queries + TILE_QUERIES - 1) / TILE_QUERIES;
	const unsigned char* const widened[] = {(const unsigned char*)wide};
	enum dtype type = a->type;
	if (tiles > 1 && type != DTYPE_F32) {
		if (type == DTYPE_F16)
			widen_keys(DTYPE_F16, key[0], a->head_dim, wide);
		else
			widen_keys(DTYPE_Q8_0, key[0], a->head_dim, wide);
		type = DTYPE_F32;
		key = widened;
	}
	struct scored s[TILE_QUERIES];
	for (int t = 0, i = 0, g = 0; t < tiles; t++) {
		const int count = queries * (t + 1) / tiles - queries * t / tiles;
		for (int j = 0; j < count; j++, to += CHUNK_SCORES) {
			s[j] = (struct scored){.row = a + i, .q = q + g * a->head_dim, .to = to};
			if (++g == a->group) {
				g = 0;
				i++;
				q += row_stride;
			}
		}
		const int dims = a->head_dim * t / tiles, fetched = a->head_dim * (t + 1) / tiles - dims;
		const size_t done = (size_t)dims * PAGE_SLOTS * key_width(a->type);
		const unsigned char* next[PAGES_AT_ONCE];
		for (int p = 0; p < pages && ahead; p++)
			next[p] = ahead[p] + done;
		(type == DTYPE_F16   ? score_half
		 : type == DTYPE_F32 ? score_float
		                     : score_bytes)(s, count, pages, key, first, next, ahead ? fetched : 0);
	}
}

/* scores (n, group, CHUNK_SCORES) of whole pages from c->start on */
static void score(const struct attention_row* a, int n, const float* q, size_t row_stride,
                  const struct common* c, float* scores) {
	_Alignas(64) unsigned char gathered[PAGE_SLOTS * MAX_HEAD_DIM * sizeof(float)];
	_Alignas(64) float wide[PAGE_SLOTS * MAX_HEAD_DIM];
	const int most = n * a->group <= PAIR_QUERIES ? PAGES_AT_ONCE : 1;
	const int solid = a->key == a->value ? 0 : c->solid;
	for (int first = c->start, pages = 1; first < c->end; first += pages * PAGE_SLOTS) {
		float* to = scores + (first - c->start);
		const unsigned char *key[PAGES_AT_ONCE], *ahead[PAGES_AT_ONCE];
		pages = first + most * PAGE_SLOTS <= solid ? most : 1;
		if (first + PAGE_SLOTS <= solid) {
			for (int p = 0; p < pages; p++) {
				const int at = first / PAGE_SLOTS + p, behind = at + FETCHED / PAGE_SLOTS;
				key[p] = a->page[at] + a->key;
				ahead[p] = a->page[behind * PAGE_SLOTS < a->base ? behind : at] + a->key;
			}
			score_pages(a, n, q, row_stride, key, pages, first, ahead, to, wide);
			continue;
		}
		for (int i = 0; i < n; i++) {
			key[0] = find_keys(a + i, first, gathered);
			score_pages(a + i, 1, q + (size_t)i * row_stride, row_stride, key, 1, first, NULL,
			            to + i * a->group * CHUNK_SCORES, wide);
		}
	}
}

/* n a multiple of PAGE_SLOTS. Several chains of maxima do not wait for one another. */
static float largest_of(const float* x, int n) {
	vec most[KEY_VECTORS];
#pragma GCC unroll 4
	for (int i = 0; i < KEY_VECTORS; i++)
		most[i] = vec_load(x + i * LANES);
	for (int first = PAGE_SLOTS; first < n; first += PAGE_SLOTS)
#pragma GCC unroll 4
		for (int i = 0; i < KEY_VECTORS; i++)
			most[i] = vec_max(most[i], vec_load(x + first + i * LANES));
	for (int i = 1; i < KEY_VECTORS; i++)
		most[0] = vec_max(most[0], most[i]);
	return vec_largest(most[0]);
}

/* x = e^(x - max), n a multiple of PAGE_SLOTS; returns their sum, and what was the largest. */
static float exponentials(float* x, int n, float* most) {
	const float largest = largest_of(x, n);
	*most = largest > -FLT_MAX ? largest : -FLT_MAX;
	const vec max = vec_set(*most);
	vec sum = vec_set(0);
	for (int i = 0; i < n; i += LANES) {
		const vec e = vec_exp_of_negative(vec_sub(vec_load(x + i), max));
		vec_store(x + i, e);
		sum = vec_add(sum, e);
	}
	return vec_sum(sum);
}

/* One query head of one row: where its mixed values go, and its weights by position. */
struct mixed {
	const struct attention_row* row;
	float* out;
	const float* weight;
};

/* Positions [from, end) whose values are mixed; `start` is that of the first weight. All heads of a tile find
 * them where the first one does. */
struct stretch {
	int start, from, end;
	const float* wide; /* (end - from, WIDE_DIMS) their values as floats; NULL: they are in the cache */
	int tile, tiles;   /* the tile fetches its share of what lies ahead of them in the cache */
};

/* Values that lie side by side, `apart` bytes from one to the next, and what is fetched meanwhile. */
struct slots {
	const unsigned char* row;
	size_t apart;
	int weight, count; /* [weight, weight + count): those of the weights */
	const unsigned char* ahead;
	size_t ahead_apart, ahead_bytes;
	int ahead_from, ahead_end;
};

/* sum (heads, chunks) += the values of one slot from dimension `at` on, weighted by the heads' i-th weights.
 * Either the weights or the values stay in registers, whichever are fewer. */
__attribute__((always_inline)) static inline void mix_slot(enum dtype type, vec* sum, const struct mixed* m,
                                                           const unsigned char* row, int i, int at, int left,
                                                           int heads, int chunks) {
	vec weights[TILE_HEADS], values[TILE_CHUNKS];
	if (heads > chunks) {
#pragma GCC unroll 8
		for (int c = 0; c < chunks; c++)
			values[c] = load_chunk(type, row, at + c * LANES, chunks > 1 ? LANES : left);
#pragma GCC unroll 8
		for (int h = 0; h < heads; h++) {
			const vec weight = vec_set(m[h].weight[i]);
#pragma GCC unroll 8
			for (int c = 0; c < chunks; c++)
				sum[h * chunks + c] = vec_fma(weight, values[c], sum[h * chunks + c]);
		}
		return;
	}
#pragma GCC unroll 8
	for (int h = 0; h < heads; h++)
		weights[h] = vec_set(m[h].weight[i]);
#pragma GCC unroll 8
	for (int c = 0; c < chunks; c++) {
		const vec value = load_chunk(type, row, at + c * LANES, chunks > 1 ? LANES : left);
#pragma GCC unroll 8
		for (int h = 0; h < heads; h++)
			sum[h * chunks + c] = vec_fma(weights[h], value, sum[h * chunks + c]);
	}
}

/* sum (heads, chunks) += the weighted values from dimension `at` on. This is the loop that attention's time
 * goes to, so type, heads and chunks are constants where it is called. left: dimensions from `at` on, where
 * chunks is 1. */
__attribute__((always_inline)) static inline void mix_slots(enum dtype type, vec* sum, const struct mixed* m,
                                                            struct slots s, int at, int left, int heads,
                                                            int chunks) {
	for (int i = s.weight; i < s.weight + s.count; i++, s.row += s.apart, s.ahead += s.ahead_apart) {
		if (i >= s.ahead_from && i < s.ahead_end)
			fetch(s.ahead, s.ahead_bytes);
		mix_slot(type, sum, m, s.row, i, at, left, heads, chunks);
	}
}

/* The same for a stretch's positions, in order. Dimension `first` is that of the first widened value. */
__attribute__((always_inline)) static inline void mix_positions(vec* sum, const struct mixed* m,
                                                                const struct stretch* s, int first, int at,
                                                                int heads, int chunks) {
	const struct attention_row* a = m->row;
	const int left = a->head_dim - at;
	const size_t width = key_width(a->type);
	struct slots slots = {.apart = s->wide ? WIDE_DIMS * sizeof(float) : a->slot_bytes,
	                      .ahead_apart = a->slot_bytes,
	                      .ahead_bytes = (size_t)(chunks * LANES) * width};
	for (int p = s->from; p < s->end; p += slots.count) {
		slots.count = side_by_side(a, p, s->end);
		slots.weight = p - s->start;
		slots.ahead = row_ahead(a, a->value, p) + (size_t)at * width;
		slots.ahead_from = slots.weight + (s->tiles ? slots.count * s->tile / s->tiles : 0);
		slots.ahead_end = slots.weight + (s->tiles ? slots.count * (s->tile + 1) / s->tiles : 0);
		if (s->wide) {
			slots.row = (const unsigned char*)(s->wide + (p - s->from) * WIDE_DIMS);
			mix_slots(DTYPE_F32, sum, m, slots, at - first, LANES, heads, chunks);
			continue;
		}
		slots.row = row_at(a, a->value, p);
		if (a->type == DTYPE_F16)
			mix_slots(DTYPE_F16, sum, m, slots, at, left, heads, chunks);
		else if (a->type == DTYPE_Q8_0)
			mix_slots(DTYPE_Q8_0, sum, m, slots, at, left, heads, chunks);
		else
			mix_slots(DTYPE_F32, sum, m, slots, at, left, heads, chunks);
	}
}

/* Sums that are in the output so far. n: dimensions from `at` on */
__attribute__((always_inline)) static inline vec load_sum(const float* at, int n) {
	return n >= LANES ? vec_load(at) : vec_load_part(at, n, 0);
}

__attribute__((always_inline)) static inline void store_sum(float* at, vec x, int n) {
	if (n >= LANES)
		vec_store(at, x);
	else
		vec_store_part(at, x, n);
}

/* The heads' outputs, `chunks` vectors from dimension `at` on, += the weighted values of a stretch, which
 * begin at dimension `first` where they are floats. heads and chunks are constants where it is called. */
__attribute__((always_inline)) static inline void mix_tile(const struct mixed* m, const struct stretch* s,
                                                           int first, int at, int heads, int chunks) {
	const int left = m->row->head_dim - at;
	vec sum[TILE_HEADS * TILE_CHUNKS];
#pragma GCC unroll 28
	for (int i = 0; i < heads * chunks; i++)
		sum[i] = load_sum(m[i / chunks].out + at + i % chunks * LANES, chunks > 1 ? LANES : left);
	mix_positions(sum, m, s, first, at, heads, chunks);
#pragma GCC unroll 28
	for (int i = 0; i < heads * chunks; i++)
		store_sum(m[i / chunks].out + at + i % chunks * LANES, sum[i], chunks > 1 ? LANES : left);
}

/* Dimensions [first, end) of the heads' outputs */
typedef void mix_function(const struct mixed* m, const struct stretch* s, int first, int end);
#define DEFINE_MIX(heads)                                                                                    \
	static void mix_##heads(const struct mixed* m, const struct stretch* s, int first, int end) {            \
		int at = first;                                                                                      \
		for (; at + TILE_CHUNKS * LANES <= end; at += TILE_CHUNKS * LANES)                                   \
			mix_tile(m, s, first, at, heads, TILE_CHUNKS);                                                   \
		for (; at + 2 * LANES <= end; at += 2 * LANES)                                                       \
			mix_tile(m, s, first, at, heads, 2);                                                             \
		for (; at < end; at += LANES)                                                                        \
			mix_tile(m, s, first, at, heads, 1);                                                             \
	}
DEFINE_MIX(1)
DEFINE_MIX(2)
DEFINE_MIX(3)
#if TILE_HEADS > 3
DEFINE_MIX(4)
DEFINE_MIX(5)
DEFINE_MIX(6)
DEFINE_MIX(7)
#endif
static mix_function* const mix_heads[TILE_HEADS] = {mix_1, mix_2, mix_3,
#if TILE_HEADS > 3
                                                    mix_4, mix_5, mix_6,
                                                    mix_7
#endif
};

/* mass (CHUNK_PAGES) = the sums of a query's n weights, whole vectors of them, by page */
static void sum_pages(const float* weight, int n, float* mass) {
	for (int page = 0; page < CHUNK_PAGES; page++) {
		vec sum = vec_set(0);
		for (int i = page * LIST_POSITIONS; i < smaller((page + 1) * LIST_POSITIONS, n); i += LANES)
			sum = vec_add(sum, vec_load(weight + i));
		mass[page] = vec_sum(sum);
	}
}

/* A call to attention before values are mixed. */
struct weighed {
	const struct attention_row* row; /* (queries / group) */
	struct common common;
	float* out; /* (queries, head_dim) */
	int queries;
	const float* weight; /* (queries, CHUNK_SCORES) */
};

static struct mixed mixed_query(const struct weighed* w, int query) {
	return (struct mixed){.row = w->row + query / w->row->group,
	                      .out = w->out + (size_t)query * (size_t)w->row->head_dim,
	                      .weight = w->weight + query * CHUNK_SCORES};
}

/* Dimensions [first, end) of all queries' outputs += a stretch's values. */
static void mix_all(const struct weighed* w, struct stretch s, int first, int end) {
	struct mixed m[TILE_HEADS];
	const int tiles = (w->queries + TILE_HEADS - 1) / TILE_HEADS;
	for (int t = 0; t < tiles; t++) {
		const int from = w->queries * t / tiles, count = w->queries * (t + 1) / tiles - from;
		for (int i = 0; i < count; i++)
			m[i] = mixed_query(w, from + i);
		s.tile = t;
		s.tiles = tiles;
		mix_heads[count - 1](m, &s, first, end);
	}
}

/* wide (positions, WIDE_DIMS) = dimensions [first, end) of the values of the stretch */
__attribute__((always_inline)) static inline void widen_slots(enum dtype type, const struct attention_row* a,
                                                              const struct stretch* s, int first, int end,
                                                              float* wide) {
	const bool whole = end - first == WIDE_DIMS;
	for (int p = s->from; p < s->end;) {
		const int slots = side_by_side(a, p, s->end);
		const unsigned char* row = row_at(a, a->value, p);
		for (int i = 0; i < slots && whole; i++, row += a->slot_bytes, wide += WIDE_DIMS)
#pragma GCC unroll 4
			for (int d = 0; d < WIDE_DIMS; d += LANES)
				vec_store(wide + d, load_chunk(type, row, first + d, LANES));
		for (int i = 0; i < slots && !whole; i++, row += a->slot_bytes, wide += WIDE_DIMS)
			for (int d = first; d < end; d += LANES)
				vec_store(wide + (d - first), load_chunk(type, row, d, a->head_dim - d));
		p += slots;
	}
}

/* The values of the positions that all rows see at the same slots are read once for all queries. */
static void mix_shared(const struct weighed* w, int first, int end) {
	_Alignas(64) float wide[WIDE_POSITIONS * WIDE_DIMS];
	const struct common* c = &w->common;
	struct stretch s = {.start = c->start, .from = c->from, .end = c->shared};
	if (w->queries <= TILE_HEADS || w->row->type == DTYPE_F32) {
		mix_all(w, s, first, end);
		return;
	}
	s.wide = wide;
	for (; s.from < c->shared; s.from = s.end) {
		s.end = smaller(s.from + WIDE_POSITIONS, c->shared);
		for (int at = first; at < end; at += WIDE_DIMS) {
			const int next = smaller(at + WIDE_DIMS, end);
			if (w->row->type == DTYPE_F16)
				widen_slots(DTYPE_F16, w->row, &s, at, next, wide);
			else
				widen_slots(DTYPE_Q8_0, w->row, &s, at, next, wide);
			mix_all(w, s, at, next);
		}
	}
}

/* Each sum takes its positions in order. So first come those that only its own row sees, then those that all
 * rows share, then again its own. */
static void mix(const struct weighed* w) {
	const struct common* c = &w->common;
	const int head_dim = w->row->head_dim;
	for (int i = 0; i < w->queries; i++) {
		const struct mixed m = mixed_query(w, i);
		const struct stretch before = {
		    .start = c->start, .from = larger(m.row->from, c->start), .end = c->from};
		memset(m.out, 0, (size_t)head_dim * sizeof *m.out);
		if (before.from < before.end)
			mix_heads[0](&m, &before, 0, head_dim);
	}
	mix_shared(w, 0, head_dim);
	for (int i = 0; i < w->queries; i++) {
		const struct mixed m = mixed_query(w, i);
		const struct stretch behind = {.start = c->start,
		                               .from = larger(larger(m.row->from, c->start), c->shared),
		                               .end = smaller(end_of(m.row), c->end)};
		if (behind.from < behind.end)
			mix_heads[0](&m, &behind, 0, head_dim);
	}
}

static void attention(struct attention_sums out, const float* q, size_t row_stride,
                      const struct attention_bundle* bundle, int chunk, float* scores) {
	const struct attention_row* a = bundle->row;
	const int n = bundle->n;
	const struct weighed w = {.row = a,
	                          .common = in_common(bundle, chunk),
	                          .out = out.mixed,
	                          .queries = n * a->group,
	                          .weight = scores};
	const int seen = w.common.end - w.common.start, whole = (seen + PAGE_SLOTS - 1) / PAGE_SLOTS * PAGE_SLOTS;
	score(a, n, q, row_stride, &w.common, scores);
	for (int i = 0; i < w.queries; i++) {
		out.total[i] = exponentials(scores + i * CHUNK_SCORES, whole, out.most + i);
		if (a[i / a->group].mass)
			sum_pages(scores + i * CHUNK_SCORES, whole, out.mass + i * CHUNK_PAGES);
	}
	mix(&w);
}

/* One query's weighted values, and those of a chunk, by their factors. */
static inline void join_mixed(float* to, const float* chunk, float factor, float chunk_factor, int head_dim) {
	for (int d = 0; d < head_dim; d += LANES) {
		const int left = head_dim - d;
		const vec before = vec_mul(load_sum(to + d, left), vec_set(factor));
		store_sum(to + d, vec_fma(load_sum(chunk + d, left), vec_set(chunk_factor), before), left);
	}
}

/* Of two sums that are weighted by their own largest scores, the one with the smaller is weighted anew. */
static void attention_join(struct attention_sums to, struct attention_sums chunk, int queries, int head_dim) {
	float factor[LANES], chunk_factor[LANES];
	for (int first = 0; first < queries; first += LANES) {
		const int n = smaller(LANES, queries - first);
		const vec most = load_sum(to.most + first, n), chunk_most = load_sum(chunk.most + first, n);
		const vec larger = vec_max(most, chunk_most);
		const vec scale = vec_exp_of_negative(vec_sub(most, larger));
		const vec chunk_scale = vec_exp_of_negative(vec_sub(chunk_most, larger));
		const vec total = vec_mul(load_sum(to.total + first, n), scale);
		store_sum(to.total + first, vec_fma(load_sum(chunk.total + first, n), chunk_scale, total), n);
		store_sum(to.most + first, larger, n);
		vec_store(factor, scale);
		vec_store(chunk_factor, chunk_scale);
		for (int i = 0; i < n; i++) {
			const size_t at = (size_t)(first + i) * (size_t)head_dim;
			join_mixed(to.mixed + at, chunk.mixed + at, factor[i], chunk_factor[i], head_dim);
		}
	}
}
