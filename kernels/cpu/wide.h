/* The kernels beside the products for processors with wide registers, written once over a vector type.
 *
 * avx2.c and avx512.c define `vec`, LANES and the vec_ operations, then include this file. An element is
 * computed alike in the middle of a row and in its tail, and sums are cut by index or by absolute
 * position: element i of a sum always falls to lane i mod LANES, lanes are added up in one tree at the
 * end. TILE_HEADS × TILE_CHUNKS accumulators fit the registers. */

enum { MAX_HEAD_DIM = 1024 };

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

/* Pages lie apart, which the processor's own fetching does not see: n rows, of a page ahead, are on their
 * way. */
static inline void fetch_rows(const struct attention_row* a, size_t rows, int position, int n) {
	if (position + n > a->base)
		return;
	const unsigned char* row = row_at(a, rows, position);
	for (size_t at = 0; at < (size_t)n * a->slot_bytes; at += 64)
		__builtin_prefetch(row + at, 0, 2);
}

/* One query against LANES keys: each product has its own accumulators, so that it does not matter which
 * keys stand beside it. */
static inline vec dots(const float* q, const float* const key[LANES], int head_dim) {
	vec sum[LANES];
#pragma GCC unroll 16
	for (int i = 0; i < LANES; i++)
		sum[i] = vec_set(0);
	int at = 0;
	for (; at + LANES <= head_dim; at += LANES) {
		const vec x = vec_load(q + at);
#pragma GCC unroll 16
		for (int i = 0; i < LANES; i++)
			sum[i] = vec_fma(x, vec_load(key[i] + at), sum[i]);
	}
	if (at < head_dim) {
		const int left = head_dim - at;
		const vec x = vec_load_part(q + at, left, 0);
#pragma GCC unroll 16
		for (int i = 0; i < LANES; i++)
			sum[i] = vec_fma(x, vec_load_part(key[i] + at, left, 0), sum[i]);
	}
	return vec_sums(sum);
}

/* One slot's (n) as floats; type is a constant where it is called. */
__attribute__((always_inline)) static inline void widen(enum dtype type, const unsigned char* row, int n,
                                                        float* out) {
	int at = 0;
	for (; at + LANES <= n; at += LANES)
		vec_store(out + at, load_chunk(type, row, at, LANES));
	if (at < n)
		vec_store(out + at, load_chunk(type, row, at, n - at));
}

/* The keys of positions [first, first + LANES) as floats; those outside [from, end) repeat a neighbour. */
static inline void gather_keys(const struct attention_row* a, int first, int from, int end, float* widened,
                               const float* key[LANES]) {
	for (int i = 0; i < LANES; i++) {
		const int inside = first + i < from ? from : smaller(first + i, end - 1);
		const unsigned char* row = row_at(a, a->key, inside);
		if (a->type == DTYPE_F32) {
			key[i] = (const float*)(const void*)row;
			continue;
		}
		float* out = widened + (size_t)i * (size_t)((a->head_dim + LANES - 1) / LANES * LANES);
		if (a->type == DTYPE_F16)
			widen(DTYPE_F16, row, a->head_dim, out);
		else
			widen(DTYPE_Q8_0, row, a->head_dim, out);
		key[i] = out;
	}
}

static inline int end_of(const struct attention_row* a) { return a->base + a->n_ancestors; }

/* What the rows of a call have in common. */
struct common {
	int start, end;   /* of the positions that any of them sees; start is a multiple of LANES */
	int least_from;   /* the first of them */
	int from, shared; /* [from, shared): seen by all, at the same slots */
	int stride;       /* of scores */
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
	const int start = least / LANES * LANES, shared = a->base + same;
	return (struct common){.start = start,
	                       .end = end,
	                       .least_from = least,
	                       .from = smaller(most, shared),
	                       .shared = shared,
	                       .stride = (end - start + LANES - 1) / LANES * LANES};
}

/* One row's scores (group, stride) of LANES keys: scale·q·k, softcapped; -infinity where it does not look. */
static inline void score_row(const struct attention_row* a, const float* q, const float* const key[LANES],
                             int first, float* scores, int stride) {
	for (int g = 0; g < a->group; g++) {
		vec s = vec_mul(dots(q + g * a->head_dim, key, a->head_dim), vec_set(a->scale));
		if (a->softcap > 0)
			s = vec_softcap(s, a->softcap);
		float* out = scores + (size_t)g * (size_t)stride;
		vec_store(out, s);
		for (int i = 0; i < LANES; i++)
			if (first + i < a->from || first + i >= end_of(a))
				out[i] = -INFINITY;
	}
}

/* scores (n, group, stride), in blocks cut at multiples of LANES: keys that all rows see are widened once. */
static void score(const struct attention_row* a, int n, const float* q, size_t row_stride,
                  const struct common* c, float* scores) {
	float widened[LANES * MAX_HEAD_DIM];
	const float* key[LANES];
	for (int first = c->start; first < c->end; first += LANES) {
		const bool together = first + LANES <= c->shared;
		fetch_rows(a, a->key, first + PAGE_SLOTS, LANES);
		if (together)
			gather_keys(a, first, c->least_from, c->shared, widened, key);
		for (int i = 0; i < n; i++) {
			if (!together)
				gather_keys(a + i, first, a[i].from, end_of(a + i), widened, key);
			score_row(a + i, q + (size_t)i * row_stride, key, first,
			          scores + (size_t)(i * a->group) * (size_t)c->stride + (first - c->start), c->stride);
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
                                                            const unsigned char* row, int slots, int weight,
                                                            int at, int heads, int chunks) {
	const size_t slot_bytes = m->row->slot_bytes;
	const int left = chunks > 1 ? LANES : m->row->head_dim - at;
	for (int i = weight; i < weight + slots; i++, row += slot_bytes) {
#pragma GCC unroll 8
		for (int c = 0; c < chunks; c++) {
			const vec value = load_chunk(type, row, at + c * LANES, left);
#pragma GCC unroll 8
			for (int h = 0; h < heads; h++)
				sum[h * chunks + c] = vec_fma(vec_set(m[h].weight[i]), value, sum[h * chunks + c]);
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
#pragma GCC unroll 16
	for (int i = 0; i < heads * chunks; i++)
		sum[i] = to[i];
	for (int p = from; p < end;) {
		const int slots = side_by_side(a, p, end);
		const unsigned char* row = row_at(a, a->value, p);
		if (at == 0)
			fetch_rows(a, a->value, p + PAGE_SLOTS, slots);
		if (a->type == DTYPE_F16)
			mix_slots(DTYPE_F16, sum, m, row, slots, p - start, at, heads, chunks);
		else
			mix_slots(a->type, sum, m, row, slots, p - start, at, heads, chunks);
		p += slots;
	}
#pragma GCC unroll 16
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
		const int head_dim = m->row->head_dim;                                                               \
		int at = 0;                                                                                          \
		for (; at + TILE_CHUNKS * LANES <= head_dim; at += TILE_CHUNKS * LANES)                              \
			mix_tile(m, c, at, heads, TILE_CHUNKS);                                                          \
		for (; at < head_dim; at += LANES)                                                                   \
			mix_tile(m, c, at, heads, 1);                                                                    \
	} while (0)

static void mix_many(const struct mixed* m, const struct common* c) { MIX_TILES(TILE_HEADS); }

static void mix_two(const struct mixed* m, const struct common* c) { MIX_TILES(2); }

static void mix_one(const struct mixed* m, const struct common* c) { MIX_TILES(1); }

static void attention(float* out, const float* q, size_t row_stride, const struct attention_row* a, int n,
                      float* scores) {
	const struct common c = in_common(a, n);
	const int queries = n * a->group;
	score(a, n, q, row_stride, &c, scores);
	struct mixed m[TILE_HEADS];
	for (int first = 0; first < queries;) {
		const int left = queries - first, count = left >= TILE_HEADS ? TILE_HEADS : left >= 2 ? 2 : 1;
		for (int i = 0; i < count; i++) {
			const int row = (first + i) / a->group, g = (first + i) % a->group;
			float* weight = scores + (size_t)(first + i) * (size_t)c.stride;
			m[i] = (struct mixed){.row = a + row,
			                      .out = out + (size_t)row * row_stride + g * a->head_dim,
			                      .weight = weight,
			                      .rescale = exponentials(weight, c.stride, a->sinks ? a->sinks + g : NULL)};
		}
		if (count == TILE_HEADS)
			mix_many(m, &c);
		else if (count == 2)
			mix_two(m, &c);
		else
			mix_one(m, &c);
		first += count;
	}
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

/* The activations are x / (1 + e^-z): z = x for SiLU, and GELU's tanh form is z = 2·sqrt(2/pi)·(x +
 * 0.044715·x³). The clamped one's is SiLU's with z = 1.702·x. */
static inline vec activate(vec x, enum activation activation) {
	vec z = x;
	if (activation == ACTIVATION_GELU_TANH)
		z = vec_mul(vec_mul(x, vec_set(1.5957691216f)),
		            vec_fma(vec_mul(x, x), vec_set(0.044715f), vec_set(1.0f)));
	else if (activation == ACTIVATION_SWIGLU_CLAMPED)
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

static float join(float* x, const float* y, int n) {
	const int whole = n / LANES * LANES, left = n - whole;
	vec xx = vec_set(0), xy = xx, yy = xx;
	for (int i = 0; i < whole; i += LANES) {
		const vec a = vec_load(x + i), b = vec_load(y + i);
		xx = vec_fma(a, a, xx);
		xy = vec_fma(a, b, xy);
		yy = vec_fma(b, b, yy);
		vec_store(x + i, vec_add(a, b));
	}
	if (left) {
		const vec a = vec_load_part(x + whole, left, 0), b = vec_load_part(y + whole, left, 0);
		xx = vec_fma(a, a, xx);
		xy = vec_fma(a, b, xy);
		yy = vec_fma(b, b, yy);
		vec_store_part(x + whole, vec_add(a, b), left);
	}
	return influence_of((double)vec_sum(xx), (double)vec_sum(xy), (double)vec_sum(yy));
}

static void store(enum dtype type, void* out, const float* x, int n) {
	if (type == DTYPE_F32) {
		memcpy(out, x, (size_t)n * sizeof *x);
		return;
	}
	if (type == DTYPE_Q8_0) {
		low_round(type, out, x, n);
		return;
	}
	const int whole = n / LANES * LANES, left = n - whole;
	uint16_t* half = out;
	for (int i = 0; i < whole; i += LANES)
		vec_store_half(half + i, vec_load(x + i));
	if (left)
		vec_store_half_part(half + whole, vec_load_part(x + whole, left, 0), left);
}

static bool normaliser(const float* x, int n, float* max, float* sum) {
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
