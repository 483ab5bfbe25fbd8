/* The kernels beside the products for processors with wide registers, written once over a vector type.
 *
 * avx2.c and avx512.c define `vec`, LANES and the vec_ operations, then include this file. An element is
 * computed alike in the middle of a row and in its tail, and sums are cut by index or by absolute
 * position: element i of a sum always falls to lane i mod LANES, lanes are added up in one tree at the
 * end. TILE_HEADS × TILE_CHUNKS accumulators fit the registers, and so do TILE_QUERIES × KEY_VECTORS, and for
 * up to PAIR_QUERIES the keys of PAGES_AT_ONCE pages. */

#include "kernels/cpu/key_layout.h"

enum {
	MAX_HEAD_DIM = 1024,
	KEY_VECTORS = PAGE_SLOTS / LANES, /* of a dimension of a page's keys */
	PAIR_QUERIES = 3,
	TILE_SUMS = KEY_VECTORS *
	            (TILE_QUERIES > PAIR_QUERIES * PAGES_AT_ONCE ? TILE_QUERIES : PAIR_QUERIES * PAGES_AT_ONCE),
	DELTA_TILE = 4,          /* vectors of a recurrence's values whose sums fit the registers */
	FETCHED = 2 * PAGE_SLOTS /* positions ahead */
};

static inline int smaller(int a, int b) { return a < b ? a : b; }

/* ---- elementary functions ------------------------------------------------------------------- */

/* e^x up to x = 88, 0 below -87; polynomial of Cephes' expf, some 1e-7 relative. */
static inline vec vec_exp(vec x) {
	const vec y = vec_min(vec_set(88.0f), vec_max(vec_set(-87.0f), x));
	const vec n = vec_round(vec_mul(y, vec_set(1.44269504f)));
	const vec r = vec_fma(n, vec_set(2.12194440e-4f), vec_fma(n, vec_set(-0.693359375f), y));
	vec p = vec_set(1.9875691500e-4f);
	p = vec_fma(p, r, vec_set(1.3981999507e-3f));
	p = vec_fma(p, r, vec_set(8.3334519073e-3f));
	p = vec_fma(p, r, vec_set(4.1665795894e-2f));
	p = vec_fma(p, r, vec_set(1.6666665459e-1f));
	p = vec_fma(p, r, vec_set(5.0000001201e-1f));
	p = vec_add(vec_fma(p, vec_mul(r, r), r), vec_set(1.0f));
	return vec_zero_below(x, -87.0f, vec_times_power(p, n));
}

/* cap·tanh(x / cap) = cap·(1 - 2 / (e^(2x/cap) + 1)) */
static inline vec vec_softcap(vec x, float cap) {
	const vec e = vec_exp(vec_mul(x, vec_set(2.0f / cap)));
	const vec tanh = vec_sub(vec_set(1.0f), vec_div(vec_set(2.0f), vec_add(e, vec_set(1.0f))));
	return vec_mul(tanh, vec_set(cap));
}

/* ---- attention ------------------------------------------------------------------------------ */

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
 * called. The keys `ahead` are fetched. */
__attribute__((always_inline)) static inline void dots(enum dtype type, const float* const q[],
                                                       const unsigned char* const key[],
                                                       const unsigned char* const ahead[], int head_dim,
                                                       int count, int pages, vec* out) {
	const size_t line = PAGE_SLOTS * key_width(type);
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
			if (ahead)
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

/* Positions from 0 on that lie at slots of their own number. */
static int solid_of(const struct attention_row* a) {
	int in_place = 0;
	while (in_place < a->n_ancestors && a->ancestor[in_place] == a->base + in_place)
		in_place++;
	return a->base + in_place;
}

/* The arguments that the rows of a call share. */
struct common {
	int start, end;   /* of the positions that any of them sees; start is a multiple of PAGE_SLOTS */
	int from, shared; /* [from, shared): seen by all, at the same slots */
	int solid;        /* positions that are shared, and lie at slots of their own number */
	int stride;       /* of scores; a multiple of PAGE_SLOTS */
};

static struct common in_common(const struct attention_row* a, int n) {
	int least = a->from, most = a->from, end = end_of(a), same = a->n_ancestors;
	for (int i = 1; i < n; i++) {
		const int limit = smaller(same, a[i].n_ancestors);
		for (same = 0; same < limit && a[i].ancestor[same] == a->ancestor[same];)
			same++;
		least = smaller(least, a[i].from);
		most = a[i].from > most ? a[i].from : most;
		end = end_of(a + i) > end ? end_of(a + i) : end;
	}
	const int start = least / PAGE_SLOTS * PAGE_SLOTS, shared = a->base + same;
	return (struct common){.start = start,
	                       .end = end,
	                       .from = smaller(most, shared),
	                       .shared = shared,
	                       .solid = smaller(shared, solid_of(a)),
	                       .stride = (end - start + PAGE_SLOTS - 1) / PAGE_SLOTS * PAGE_SLOTS};
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
__attribute__((always_inline)) static inline void score_tile(enum dtype type, const struct scored* s,
                                                             int count, int pages,
                                                             const unsigned char* const key[], int first,
                                                             const unsigned char* const ahead[]) {
	const float* q[TILE_QUERIES];
	vec sum[TILE_SUMS];
#pragma GCC unroll 8
	for (int j = 0; j < count; j++)
		q[j] = s[j].q;
	dots(type, q, key, ahead, s->row->head_dim, count, pages, sum);
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
		score_tile(type, s, n, pages, key, first, ahead);                                                    \
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
	                 int first, const unsigned char* const ahead[]) {                                        \
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

/* The keys of positions [first, first + PAGE_SLOTS): as they lie in their page, where the row finds all of
 * them that it sees there at their own slots, else gathered. */
static const unsigned char* find_keys(const struct attention_row* a, int first, unsigned char* gathered) {
	const int end = smaller(first + PAGE_SLOTS, end_of(a));
	if (a->key == a->value) {
		turn_rows(a, first, end, gathered);
		return gathered;
	}
	if (end <= solid_of(a))
		return a->page[first / PAGE_SLOTS] + a->key;
	if (first < a->base)
		memcpy(gathered, a->page[first / PAGE_SLOTS] + a->key, PAGE_SLOTS * a->slot_bytes);
	else
		memset(gathered, 0, PAGE_SLOTS * a->slot_bytes);
	for (int p = first < a->base ? a->base : first; p < end; p++) {
		const int slot = a->ancestor[p - a->base];
		key_copy(a->type, gathered, p - first, a->page[slot / PAGE_SLOTS] + a->key, slot % PAGE_SLOTS,
		         a->head_dim);
	}
	return gathered;
}

/* Scores of n rows' queries with the keys of one or more pages from position `first` on, in tiles as even as
 * they can be. Theirs begin at `to`, `stride` floats apart. */
static void score_pages(const struct attention_row* a, int n, const float* q, size_t row_stride,
                        const unsigned char* const key[], int pages, int first,
                        const unsigned char* const ahead[], float* to, size_t stride) {
	const int queries = n * a->group, tiles = (queries + TILE_QUERIES - 1) / TILE_QUERIES;
	struct scored s[TILE_QUERIES];
	for (int t = 0, i = 0, g = 0; t < tiles; t++) {
		const int count = queries * (t + 1) / tiles - queries * t / tiles;
		for (int j = 0; j < count; j++, to += stride) {
			s[j] = (struct scored){.row = a + i, .q = q + g * a->head_dim, .to = to};
			if (++g == a->group) {
				g = 0;
				i++;
				q += row_stride;
			}
		}
		(a->type == DTYPE_F16   ? score_half
		 : a->type == DTYPE_F32 ? score_float
		                        : score_bytes)(s, count, pages, key, first, t == 0 ? ahead : NULL);
	}
}

/* scores (n, group, stride) of the positions [first, end), both multiples of PAGE_SLOTS behind c->start */
static void score(const struct attention_row* a, int n, const float* q, size_t row_stride,
                  const struct common* c, int first, int end, float* scores) {
	_Alignas(64) unsigned char gathered[PAGE_SLOTS * MAX_HEAD_DIM * sizeof(float)];
	const size_t stride = (size_t)c->stride;
	const int most = n * a->group <= PAIR_QUERIES ? PAGES_AT_ONCE : 1;
	const int solid = a->key == a->value ? 0 : smaller(end, c->solid);
	for (int pages = 1; first < end; first += pages * PAGE_SLOTS) {
		float* to = scores + (first - c->start);
		const unsigned char *key[PAGES_AT_ONCE], *ahead[PAGES_AT_ONCE];
		pages = first + most * PAGE_SLOTS <= solid ? most : 1;
		if (first + PAGE_SLOTS <= solid) {
			for (int p = 0; p < pages; p++) {
				const int at = first / PAGE_SLOTS + p, behind = at + FETCHED / PAGE_SLOTS;
				key[p] = a->page[at] + a->key;
				ahead[p] = a->page[behind * PAGE_SLOTS < a->base ? behind : at] + a->key;
			}
			score_pages(a, n, q, row_stride, key, pages, first, ahead, to, stride);
			continue;
		}
		for (int i = 0; i < n; i++) {
			key[0] = find_keys(a + i, first, gathered);
			score_pages(a + i, 1, q + (size_t)i * row_stride, row_stride, key, 1, first, NULL,
			            to + (size_t)(i * a->group) * stride, stride);
		}
	}
}

/* x = e^(x - max), n a multiple of LANES; returns one over their sum. A sink takes part as one score more. */
static float exponentials(float* x, int n, const float* sink) {
	vec most = vec_load(x);
	for (int i = LANES; i < n; i += LANES)
		most = vec_max(most, vec_load(x + i));
	const float largest = vec_largest(most);
	const vec max = vec_set(sink && *sink > largest ? *sink : largest);
	vec sum = vec_set(0);
	for (int i = 0; i < n; i += LANES) {
		const vec e = vec_exp(vec_sub(vec_load(x + i), max));
		vec_store(x + i, e);
		sum = vec_add(sum, e);
	}
	if (!sink)
		return 1.0f / vec_sum(sum);
	float lanes[LANES];
	vec_store(lanes, vec_exp(vec_sub(vec_set(*sink), max)));
	return 1.0f / (vec_sum(sum) + lanes[0]);
}

/* One query head of one row: where its mixed values go, and its weights by position from `start` on. */
struct mixed {
	const struct attention_row* row;
	float* out;
	const float* weight;
	float rescale;
};

/* sum (heads, chunks) += the weighted values of slots side by side from `row` on, whose weights begin at
 * `weight`: the loop that attention's time goes to, so type, heads and chunks are constants where it is
 * called. */
__attribute__((always_inline)) static inline void mix_slots(enum dtype type, vec* sum, const struct mixed* m,
                                                            const unsigned char* row,
                                                            const unsigned char* ahead, int slots, int weight,
                                                            int at, int heads, int chunks) {
	const size_t slot_bytes = m->row->slot_bytes, width = key_width(type);
	const int left = chunks > 1 ? LANES : m->row->head_dim - at;
	ahead += (size_t)at * width;
	for (int i = weight; i < weight + slots; i++, row += slot_bytes, ahead += slot_bytes) {
		fetch(ahead, (size_t)(chunks * LANES) * width);
		vec weights[TILE_HEADS];
#pragma GCC unroll 8
		for (int h = 0; h < heads; h++)
			weights[h] = vec_set(m[h].weight[i]);
#pragma GCC unroll 8
		for (int c = 0; c < chunks; c++) {
			const vec value = load_chunk(type, row, at + c * LANES, left);
#pragma GCC unroll 8
			for (int h = 0; h < heads; h++)
				sum[h * chunks + c] = vec_fma(weights[h], value, sum[h * chunks + c]);
		}
	}
}

/* sum (heads, chunks) += the weighted values of positions [from, end), in order, of `chunks` vectors of their
 * dimensions from `at` on; all heads find them where the first one does. heads and chunks are constants where
 * it is called. */
__attribute__((always_inline)) static inline void
mix_positions(vec* to, const struct mixed* m, int from, int end, int start, int at, int heads, int chunks) {
	const struct attention_row* a = m->row;
	vec sum[TILE_HEADS * TILE_CHUNKS];
#pragma GCC unroll 24
	for (int i = 0; i < heads * chunks; i++)
		sum[i] = to[i];
	for (int p = from; p < end;) {
		const int slots = side_by_side(a, p, end);
		const unsigned char* row = row_at(a, a->value, p);
		const unsigned char* ahead = row_ahead(a, a->value, p);
		if (a->type == DTYPE_F16)
			mix_slots(DTYPE_F16, sum, m, row, ahead, slots, p - start, at, heads, chunks);
		else if (a->type == DTYPE_Q8_0)
			mix_slots(DTYPE_Q8_0, sum, m, row, ahead, slots, p - start, at, heads, chunks);
		else
			mix_slots(DTYPE_F32, sum, m, row, ahead, slots, p - start, at, heads, chunks);
		p += slots;
	}
#pragma GCC unroll 24
	for (int i = 0; i < heads * chunks; i++)
		to[i] = sum[i];
}

/* The positions that all rows share are read once for all the heads; those before and behind by each. */
__attribute__((always_inline)) static inline void mix_tile(const struct mixed* m, const struct common* c,
                                                           int at, int heads, int chunks) {
	vec sum[TILE_HEADS * TILE_CHUNKS];
	for (int i = 0; i < heads * chunks; i++)
		sum[i] = vec_set(0);
	for (int h = 0; h < heads; h++)
		mix_positions(sum + h * chunks, m + h, m[h].row->from, c->from, c->start, at, 1, chunks);
	mix_positions(sum, m, c->from, c->shared, c->start, at, heads, chunks);
	for (int h = 0; h < heads; h++) {
		const int from = m[h].row->from > c->shared ? m[h].row->from : c->shared;
		mix_positions(sum + h * chunks, m + h, from, end_of(m[h].row), c->start, at, 1, chunks);
	}
	for (int h = 0; h < heads; h++)
		for (int k = 0; k < chunks; k++) {
			const int first = at + k * LANES, left = m->row->head_dim - first;
			const vec mixed = vec_mul(sum[h * chunks + k], vec_set(m[h].rescale));
			if (left >= LANES)
				vec_store(m[h].out + first, mixed);
			else
				vec_store_part(m[h].out + first, mixed, left);
		}
}

#define MIX_TILES(heads)                                                                                     \
	do {                                                                                                     \
		for (; at + TILE_CHUNKS * LANES <= end; at += TILE_CHUNKS * LANES)                                   \
			mix_tile(m, c, at, heads, TILE_CHUNKS);                                                          \
		for (; at + 2 * LANES <= end; at += 2 * LANES)                                                       \
			mix_tile(m, c, at, heads, 2);                                                                    \
		for (; at < end; at += LANES)                                                                        \
			mix_tile(m, c, at, heads, 1);                                                                    \
	} while (0)

/* Dimensions [at, end) of the heads' mixed values */
typedef void mix_function(const struct mixed* m, const struct common* c, int at, int end);
#define DEFINE_MIX(heads)                                                                                    \
	static void mix_##heads(const struct mixed* m, const struct common* c, int at, int end) {                \
		MIX_TILES(heads);                                                                                    \
	}
DEFINE_MIX(1)
DEFINE_MIX(2)
DEFINE_MIX(3)
#if TILE_HEADS > 3
DEFINE_MIX(4)
DEFINE_MIX(5)
DEFINE_MIX(6)
#endif
static mix_function* const mix_heads[TILE_HEADS] = {mix_1, mix_2,
                                                    mix_3,
#if TILE_HEADS > 3
                                                    mix_4, mix_5,
                                                    mix_6
#endif
};

/* The weights of one query's n positions (whole vectors, zero behind the last) join their pages' sums. */
static void add_mass(const float* weight, int n, float rescale, float* mass) {
	for (int p = 0; p < n; p += LIST_POSITIONS) {
		vec sum = vec_load(weight + p);
		for (int i = p + LANES; i < smaller(p + LIST_POSITIONS, n); i += LANES)
			sum = vec_add(sum, vec_load(weight + i));
		mass[p / LIST_POSITIONS] += rescale * vec_sum(sum);
	}
}

static void note_mass(const struct attention_row* a, int head, const struct mixed* m) {
	const int n = (end_of(a) + LANES - 1) / LANES * LANES;
	if (head == 0)
		memset(a->mass, 0, (size_t)((n + LIST_POSITIONS - 1) / LIST_POSITIONS) * sizeof *a->mass);
	add_mass(m->weight, n, m->rescale, a->mass);
}

/* The share's part of n things */
static inline void part_of(const struct attention_share* share, int n, int* first, int* end) {
	*first = n * share->part / share->parts;
	*end = n * (share->part + 1) / share->parts;
}

static void attention(float* out, const float* q, size_t row_stride, const struct attention_row* a, int n,
                      float* scores, const struct attention_share* share) {
	const struct attention_share all = {.parts = 1}, *mine = share ? share : &all;
	const struct common c = in_common(a, n);
	const int queries = n * a->group, tiles = (queries + TILE_HEADS - 1) / TILE_HEADS;
	float* rescale = scores + (size_t)queries * (size_t)c.stride; /* (queries) */
	int first, end;
	if (!share || share->step == ATTENTION_SCORES) {
		part_of(mine, c.stride / PAGE_SLOTS, &first, &end);
		score(a, n, q, row_stride, &c, c.start + first * PAGE_SLOTS, c.start + end * PAGE_SLOTS, scores);
	}
	if (share && share->step == ATTENTION_WEIGHTS) {
		part_of(mine, queries, &first, &end);
		for (int i = first; i < end; i++)
			rescale[i] = exponentials(scores + (size_t)i * (size_t)c.stride, c.stride,
			                          a->sinks ? a->sinks + i % a->group : NULL);
	}
	if (share && share->step != ATTENTION_MIX)
		return;
	part_of(mine, (a->head_dim + 31) / 32, &first, &end);
	struct mixed m[TILE_HEADS];
	for (int t = 0; t < tiles; t++) {
		const int from = queries * t / tiles, count = queries * (t + 1) / tiles - from;
		for (int i = 0; i < count; i++) {
			const int row = (from + i) / a->group, g = (from + i) % a->group;
			float* weight = scores + (size_t)(from + i) * (size_t)c.stride;
			m[i] = (struct mixed){.row = a + row,
			                      .out = out + (size_t)row * row_stride + g * a->head_dim,
			                      .weight = weight,
			                      .rescale =
			                          share ? rescale[from + i]
			                                : exponentials(weight, c.stride, a->sinks ? a->sinks + g : NULL)};
			if (a[row].mass && mine->part == 0)
				note_mass(a + row, g, &m[i]);
		}
		mix_heads[count - 1](m, &c, first * 32, smaller(end * 32, a->head_dim));
	}
}

/* ---- recurrence ----------------------------------------------------------------------------- */

/* `count` vectors of values from the j-th on, or `part` lanes of one: a value's sums have an accumulator of
 * their own and go through the keys in order, whatever stands beside it. corrects: what the state holds for
 * the key already is subtracted from the value. */
__attribute__((always_inline)) static inline void delta_tile(float* to, const float* from, float* out,
                                                             const struct delta_row* row, int keys,
                                                             int values, int j, int count, int part,
                                                             bool corrects) {
	const bool whole = part >= LANES;
	vec held[DELTA_TILE], given[DELTA_TILE], delta[DELTA_TILE];
#pragma GCC unroll 4
	for (int c = 0; c < count; c++)
		held[c] = given[c] = vec_set(0);
	const float* at = from + j;
	for (int i = 0; i < keys && corrects; i++, at += values) {
		const vec k = vec_set(row->k[i]);
#pragma GCC unroll 4
		for (int c = 0; c < count; c++)
			held[c] = vec_fma(k, whole ? vec_load(at + c * LANES) : vec_load_part(at, part, 0), held[c]);
	}
	const vec decay = vec_set(row->decay), beta = vec_set(row->beta);
#pragma GCC unroll 4
	for (int c = 0; c < count; c++) {
		const float* at_v = row->v + j + c * LANES;
		const vec v = whole ? vec_load(at_v) : vec_load_part(at_v, part, 0);
		delta[c] = vec_mul(beta, corrects ? vec_sub(v, vec_mul(decay, held[c])) : v);
	}
	at = from + j;
	float* put = to + j;
	for (int i = 0; i < keys; i++, at += values, put += values) {
		const vec k = vec_set(row->k[i]), q = vec_set(row->q[i]);
#pragma GCC unroll 4
		for (int c = 0; c < count; c++) {
			const vec old = whole ? vec_load(at + c * LANES) : vec_load_part(at, part, 0);
			const vec s = vec_fma(k, delta[c], vec_mul(decay, old));
			given[c] = vec_fma(q, s, given[c]);
			if (whole)
				vec_store(put + c * LANES, s);
			else
				vec_store_part(put, s, part);
		}
	}
#pragma GCC unroll 4
	for (int c = 0; c < count && out; c++)
		if (whole)
			vec_store(out + j + c * LANES, given[c]);
		else
			vec_store_part(out + j, given[c], part);
}

__attribute__((always_inline)) static inline void delta_tiles(float* to, const float* from, float* out,
                                                              const struct delta_row* row, int keys,
                                                              int values, bool corrects) {
	int j = 0;
	for (; j + DELTA_TILE * LANES <= values; j += DELTA_TILE * LANES)
		delta_tile(to, from, out, row, keys, values, j, DELTA_TILE, LANES, corrects);
	for (; j + LANES <= values; j += LANES)
		delta_tile(to, from, out, row, keys, values, j, 1, LANES, corrects);
	if (j < values)
		delta_tile(to, from, out, row, keys, values, j, 1, values - j, corrects);
}

static void delta_step(float* to, const float* from, float* out, const struct delta_row* row, int keys,
                       int values) {
	delta_tiles(to, from, out, row, keys, values, true);
}

static void scan_step(float* to, const float* from, float* out, const struct delta_row* row, int keys,
                      int values) {
	delta_tiles(to, from, out, row, keys, values, false);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void rms_norm(float* out, const float* x, const float* weight, float plus, float epsilon, int n) {
	const int whole = n / LANES * LANES, left = n - whole;
	vec squares = vec_set(0);
	for (int i = 0; i < whole; i += LANES)
		squares = vec_fma(vec_load(x + i), vec_load(x + i), squares);
	if (left) {
		const vec v = vec_load_part(x + whole, left, 0);
		squares = vec_fma(v, v, squares);
	}
	const vec scale = vec_set(1.0f / sqrtf(vec_sum(squares) / (float)n + epsilon)), added = vec_set(plus);
	for (int i = 0; i < whole; i += LANES)
		vec_store(out + i, vec_mul(vec_mul(vec_load(x + i), scale), vec_add(vec_load(weight + i), added)));
	if (left) {
		const vec w = vec_add(vec_load_part(weight + whole, left, 0), added);
		vec_store_part(out + whole, vec_mul(vec_mul(vec_load_part(x + whole, left, 0), scale), w), left);
	}
}

/* The exact GELU is max(x, 0) - |x|·erfc(z)/2, z = |x|/sqrt(2). With t = 1/(1 + z/2), erfc(z) is t·e^(p(t) -
 * z²) for a polynomial p, to 1.2e-7 of itself (Press et al. 1992, Numerical Recipes in C, section 6.2). */
static inline vec gelu(vec x) {
	static const float p[] = {-1.26551223f, 1.00002368f,  0.37409196f, 0.09678418f,  -0.18628806f,
	                          0.27886807f,  -1.13520398f, 1.48851587f, -0.82215223f, 0.17087277f};
	const vec magnitude = vec_max(x, vec_sub(vec_set(0), x)), z = vec_mul(magnitude, vec_set(0.7071067812f));
	const vec t = vec_div(vec_set(1.0f), vec_fma(z, vec_set(0.5f), vec_set(1.0f)));
	vec sum = vec_set(p[9]);
	for (int i = 8; i >= 0; i--)
		sum = vec_fma(sum, t, vec_set(p[i]));
	const vec tail = vec_mul(t, vec_exp(vec_sub(sum, vec_mul(z, z))));
	return vec_sub(vec_max(x, vec_set(0)), vec_mul(vec_mul(magnitude, vec_set(0.5f)), tail));
}

/* Others are x / (1 + e^-z): z = x for SiLU, and GELU's tanh form is z = 2·sqrt(2/pi)·(x + 0.044715·x³). The
 * clamped one's and quick GELU's are SiLU's with z = 1.702·x. */
static inline vec activate(vec x, enum activation activation) {
	vec z = x;
	if (activation == ACTIVATION_GELU)
		return gelu(x);
	if (activation == ACTIVATION_RELU)
		return vec_max(x, vec_set(0));
	if (activation == ACTIVATION_RELU2)
		return vec_mul(vec_max(x, vec_set(0)), vec_max(x, vec_set(0)));
	if (activation == ACTIVATION_GELU_TANH)
		z = vec_mul(vec_mul(x, vec_set(1.5957691216f)),
		            vec_fma(vec_mul(x, x), vec_set(0.044715f), vec_set(1.0f)));
	else if (activation == ACTIVATION_SWIGLU_CLAMPED || activation == ACTIVATION_QUICK_GELU)
		z = vec_mul(x, vec_set(1.702f));
	return vec_div(x, vec_add(vec_set(1.0f), vec_exp(vec_sub(vec_set(0), z))));
}

static inline vec gated(vec x, vec up, enum activation activation) {
	if (activation == ACTIVATION_SWIGLU_CLAMPED) {
		const vec most = vec_set(7.0f);
		up = vec_add(vec_max(vec_min(most, up), vec_set(-7.0f)), vec_set(1.0f));
		x = vec_min(most, x);
	}
	return vec_mul(activate(x, activation), up);
}

static void gate(float* values, const float* up, enum activation activation, int n) {
	const int whole = n / LANES * LANES, left = n - whole;
	for (int i = 0; i < whole; i += LANES)
		vec_store(values + i, gated(vec_load(values + i), vec_load(up + i), activation));
	if (left) {
		const vec x = vec_load_part(values + whole, left, 0), y = vec_load_part(up + whole, left, 0);
		vec_store_part(values + whole, gated(x, y, activation), left);
	}
}

static void join(float* x, const float* y, int n) {
	const int whole = n / LANES * LANES, left = n - whole;
	for (int i = 0; i < whole; i += LANES)
		vec_store(x + i, vec_add(vec_load(x + i), vec_load(y + i)));
	if (left)
		vec_store_part(x + whole,
		               vec_add(vec_load_part(x + whole, left, 0), vec_load_part(y + whole, left, 0)), left);
}

static void store(enum dtype type, void* out, const float* x, int n) {
	if (type == DTYPE_F32) {
		memcpy(out, x, (size_t)n * sizeof *x);
		return;
	}
	if (type == DTYPE_Q8_0) {
		quantize_row(type, out, x, n);
		return;
	}
	const int whole = n / LANES * LANES, left = n - whole;
	uint16_t* half = out;
	for (int i = 0; i < whole; i += LANES)
		vec_store_half(half + i, vec_load(x + i));
	if (left)
		vec_store_half_part(half + whole, vec_load_part(x + whole, left, 0), left);
}

static bool sum_exp(const float* x, int n, float* max, float* sum) {
	const int whole = n / LANES * LANES, left = n - whole;
	vec most = vec_set(-FLT_MAX);
	bool finite = true;
	for (int i = 0; i < whole; i += LANES) {
		const vec v = vec_load(x + i);
		finite &= vec_all_finite(v);
		most = vec_max(most, v);
	}
	if (left) {
		const vec v = vec_load_part(x + whole, left, -FLT_MAX);
		finite &= vec_all_finite(v);
		most = vec_max(most, v);
	}
	*max = vec_largest(most);
	const vec top = vec_set(*max);
	vec total = vec_set(0);
	for (int i = 0; i < whole; i += LANES)
		total = vec_add(total, vec_exp(vec_sub(vec_load(x + i), top)));
	if (left)
		total = vec_add(total, vec_exp(vec_sub(vec_load_part(x + whole, left, -INFINITY), top)));
	*sum = vec_sum(total);
	return finite;
}

static void softcap(float* x, float cap, int n) {
	const int whole = n / LANES * LANES, left = n - whole;
	for (int i = 0; i < whole; i += LANES)
		vec_store(x + i, vec_softcap(vec_load(x + i), cap));
	if (left)
		vec_store_part(x + whole, vec_softcap(vec_load_part(x + whole, left, 0), cap), left);
}
