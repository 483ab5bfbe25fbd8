/* Every matrix product against the plain one and against doubles, and the promise that an output's bits
 * depend on neither rows, range, neighbours nor alignment. */
#include "kernels/cpu/matmul.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/cpu/kernels.h"
#include "kernels/interleaved.h"

/* The plain kernels, then the fast ones this processor runs. */
static const struct cpu_kernels* kernels[1 + MAX_ISAS] = {&cpu_reference};
static int n_kernels;

static int find_kernels(void** state) {
	(void)state;
	n_kernels = 1 + cpu_kernels_here(kernels + 1);
	return 0;
}

static uint64_t random_state = 1;

static uint32_t random_u32(void) { /* PCG's multiplier; the high half is good enough here */
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 32);
}

static float random_float(void) { return (float)random_u32() * 0x1p-31f - 1.0f; }

/* Offsets of the 16-bit floats in a block, -1 none; the second is what the format subtracts or adds. */
static void half_fields(enum dtype type, int* d, int* min) {
	*d = 0;
	*min = -1;
	switch (type) {
	case DTYPE_Q4_1:
	case DTYPE_Q5_1:
	case DTYPE_Q4_K:
	case DTYPE_Q5_K:
		*min = 2;
		break;
	case DTYPE_Q2_K:
		*d = 80, *min = 82;
		break;
	case DTYPE_Q3_K:
		*d = 108;
		break;
	case DTYPE_Q6_K:
		*d = 208;
		break;
	default:
		break;
	}
}

static void put_half(uint8_t* p, float x) {
	const uint16_t h = half_from_float(x);
	p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
}

/* A block of the decoded types: its scale is small and finite. */
static void tame_scale(enum dtype type, uint8_t* p) {
	const float small = random_float() * 0.01f;
	switch (type) {
	case DTYPE_MXFP4:
		p[0] = (uint8_t)(118 + p[0] % 8);
		break;
	case DTYPE_IQ1_M: /* the half's upper bits lie on top of the scales' words */
		p[55] = (uint8_t)((p[55] & 0x0f) | 0x20);
		break;
	case DTYPE_TQ1_0:
		put_half(p + 52, small);
		break;
	case DTYPE_TQ2_0:
		put_half(p + 64, small);
		break;
	case DTYPE_Q4_GROUP:
	case DTYPE_F8_GROUP:
	case DTYPE_Q8_GROUP:
		memcpy(p, &small, 4);
		for (int j = 4; j < 36 && type == DTYPE_F8_GROUP; j++)
			p[j] = (p[j] & 127) == 127 ? 0 : p[j];
		break;
	default:
		put_half(p, small);
	}
}

static void random_block(enum dtype type, uint8_t* p) {
	const float x = random_float();
	if (type == DTYPE_F32) {
		memcpy(p, &x, 4);
	} else if (type == DTYPE_F16) {
		put_half(p, x);
	} else if (type == DTYPE_BF16) {
		const uint16_t b = bf16_from_float(x);
		p[0] = (uint8_t)b, p[1] = (uint8_t)(b >> 8);
	} else {
		int d, min;
		half_fields(type, &d, &min);
		for (size_t i = 0; i < dtype_block_bytes(type); i++)
			p[i] = (uint8_t)random_u32();
		if (dtype_is_decoded(type))
			tame_scale(type, p);
		else
			put_half(p + d, random_float() * 0.01f);
		if (min >= 0)
			put_half(p + min, random_float() * 0.1f);
	}
}

enum { ROWS = 27, X_ROWS = 2 * SLICE_ROWS + 22 };

/* One random case: weights at an odd address, activations with an outlier and a zero block. */
struct fixture {
	struct tensor w;
	uint8_t* bytes;
	float* x;         /* (X_ROWS, cols) */
	uint8_t* x_plain; /* prepared */
};

static struct fixture make(enum dtype type, int cols) {
	struct fixture f;
	const size_t row = dtype_row_bytes(type, cols), block = dtype_block_bytes(type);
	f.bytes = malloc(row * ROWS + 1);
	for (size_t at = 0; at < row * ROWS; at += block)
		random_block(type, f.bytes + 1 + at);
	f.w = (struct tensor){.type = type, .rows = ROWS, .cols = cols, .data = f.bytes + 1};
	f.x = malloc(sizeof(float) * (size_t)cols * X_ROWS);
	for (int k = 0; k < cols * X_ROWS; k++)
		f.x[k] = random_float();
	f.x[cols / 2] = 40;
	for (int k = 0; k < cols && k < 256; k++)
		f.x[cols + k] = 0;
	const size_t prepared = reference_prepared_bytes(type, cols);
	f.x_plain = aligned_alloc(64, prepared * X_ROWS);
	for (int i = 0; i < X_ROWS; i++)
		reference_prepare(type, f.x_plain + (size_t)i * prepared, f.x + i * cols, cols);
	return f;
}

static void drop(struct fixture* f) {
	free(f->bytes);
	free(f->x);
	free(f->x_plain);
}

/* Row r widened, and, without its minima, widened again: what is added up is no larger than the one plus
 * the difference. */
static void widen(const struct fixture* f, int r, float* w, float* w_without_minima) {
	const size_t row = dtype_row_bytes(f->w.type, f->w.cols), block = dtype_block_bytes(f->w.type);
	const uint8_t* at = (const uint8_t*)f->w.data + row * (size_t)r;
	uint8_t* copy = malloc(row);
	int d, min;
	half_fields(f->w.type, &d, &min);
	memcpy(copy, at, row);
	if (min >= 0)
		for (size_t b = 0; b < row; b += block)
			put_half(copy + b + min, 0);
	dtype_to_float(f->w.type, at, w, f->w.cols);
	dtype_to_float(f->w.type, copy, w_without_minima, f->w.cols);
	free(copy);
}

/* Half a step of the int8 grid a column's block is rounded to; 0 for float types. */
static double half_step(enum dtype type, const float* x, int k) {
	if (dtype_takes_floats(type))
		return 0;
	const int block = activation_block(type), first = k / block * block;
	float largest = 0;
	for (int j = first; j < first + block; j++)
		largest = fmaxf(largest, fabsf(x[j]));
	return (double)largest / 127 * 0.50001;
}

/* The expected products of every ninth row of x, (CHECKED, ROWS) each. */
enum { CHECKED = (X_ROWS + 8) / 9 };
struct bounds {
	double exact[CHECKED][ROWS], grid[CHECKED][ROWS], rounding[CHECKED][ROWS];
	float plain[X_ROWS * ROWS]; /* the plain product */
};

/* |product - Σ w·x| is at most Σ |w| times half a step of each activation's grid, plus the rounding of
 * as many additions as a lane has, of terms no larger than Σ (|stored part| + |minimum|)·|x|. */
static struct bounds* find_bounds(const struct fixture* f) {
	const int cols = (int)f->w.cols;
	struct bounds* b = malloc(sizeof *b);
	float *w = malloc(sizeof(float) * (size_t)cols), *bare = malloc(sizeof(float) * (size_t)cols);
	const double roundings = (dtype_takes_floats(f->w.type) ? cols / 8 : cols / 32 * 2) + 16;
	cpu_reference.matmul(b->plain, ROWS, &f->w, 0, ROWS, f->x_plain, X_ROWS);
	for (int r = 0; r < ROWS; r++) {
		widen(f, r, w, bare);
		for (int i = 0; i < CHECKED; i++) {
			const float* x = f->x + 9 * i * cols;
			double exact = 0, grid = 0, size = 0;
			double step = 0;
			for (int k = 0; k < cols; k++) {
				if (k % 32 == 0)
					step = half_step(f->w.type, x, k);
				exact += (double)w[k] * (double)x[k];
				grid += fabs((double)w[k]) * step;
				size += (fabs((double)bare[k]) + fabs((double)w[k] - (double)bare[k])) *
				        (fabs((double)x[k]) + step);
			}
			b->exact[i][r] = exact;
			b->grid[i][r] = grid;
			b->rounding[i][r] = roundings * 0x1p-24 * size;
		}
	}
	free(w);
	free(bare);
	return b;
}

static void check_bounds(const struct fixture* f, const struct bounds* b, const float* out,
                         const char* name) {
	for (int r = 0; r < ROWS; r++)
		for (int i = 0; i < CHECKED; i++) {
			const double exact = b->exact[i][r], grid = b->grid[i][r], rounding = b->rounding[i][r];
			const double got = (double)out[9 * i * ROWS + r], want = (double)b->plain[9 * i * ROWS + r];
			if (!(fabs(got - exact) <= grid + rounding + 1e-30))
				fail_msg("%s %s cols %d row %d x %d: %.9g, exact %.9g, bound %.3g", name,
				         dtype_name(f->w.type), (int)f->w.cols, r, 9 * i, got, exact, grid + rounding);
			if (!(fabs(got - want) <= 2 * rounding + 1e-30))
				fail_msg("%s %s cols %d row %d x %d: %.9g, plain %.9g, bound %.3g", name,
				         dtype_name(f->w.type), (int)f->w.cols, r, 9 * i, got, want, 2 * rounding);
		}
}

/* Any number of rows, any range: the same bits as all rows and the whole range; nothing else touched. */
static void check_invariance(const struct fixture* f, const struct cpu_kernels* k, const float* whole) {
	float out[X_ROWS * (ROWS + 3)];
	uint32_t poison = 0xdeadbeef;
	const size_t stride = ROWS + 3, prepared = reference_prepared_bytes(f->w.type, (int)f->w.cols);
	const bool brief = getenv("SWIFTLET_BRIEF"); /* on a processor that is played */
	for (int n = 1; n <= X_ROWS; n += brief ? 1 + n / 4 : n < SLICE_ROWS ? 1 : 17) {
		const int begin = (int)(random_u32() % ROWS),
		          end = begin + (int)(random_u32() % (uint32_t)(ROWS - begin + 1));
		const int first = (int)(random_u32() % (uint32_t)(X_ROWS - n + 1));
		for (size_t j = 0; j < X_ROWS * stride; j++)
			memcpy(out + j, &poison, 4);
		k->matmul(out, stride, &f->w, begin, end, f->x_plain + (size_t)first * prepared, n);
		for (int i = 0; i < X_ROWS; i++)
			for (int r = 0; r < (int)stride; r++) {
				const bool inside = i < n && r >= begin && r < end;
				const void* want =
				    inside ? (const void*)&whole[(first + i) * ROWS + r] : (const void*)&poison;
				if (memcmp(&out[(size_t)i * stride + (size_t)r], want, 4))
					fail_msg("%s %s cols %d: rows %d..%d of x, %d..%d of w: element (%d, %d) %s", k->name,
					         dtype_name(f->w.type), (int)f->w.cols, first, first + n, begin, end, i, r,
					         inside ? "has other bits" : "was written");
			}
	}
}

static const int float_cols[] = {1, 7, 16, 33, 256, 2049, 6200};
static const int small_cols[] = {32, 96, 256, 2080, 4160};
static const int super_cols[] = {256, 768, 2048, 2304, 4352};

/* On a processor that is played the longest rows are left out: they take as long as all others. */
static void each_case(void (*check)(enum dtype, int cols)) {
	const size_t left_out = getenv("SWIFTLET_BRIEF") ? 1 : 0;
	for (int t = 0; t < DTYPE_COUNT; t++) {
		if (dtype_is_float((enum dtype)t))
			for (size_t c = 0; c < sizeof float_cols / sizeof *float_cols - left_out; c++)
				check((enum dtype)t, float_cols[c]);
		else
			for (size_t c = 0; c < sizeof small_cols / sizeof *small_cols - left_out; c++)
				check((enum dtype)t, dtype_block((enum dtype)t) == 32 ? small_cols[c] : super_cols[c]);
	}
}

static void check_products(enum dtype type, int cols) {
	struct fixture f = make(type, cols);
	struct bounds* bounds = find_bounds(&f);
	float* out = malloc(sizeof(float) * ROWS * X_ROWS);
	for (int k = 0; k < n_kernels; k++) { /* the plain one takes its time */
		const float* whole = k > 0 ? out : bounds->plain;
		if (k > 0)
			kernels[k]->matmul(out, ROWS, &f.w, 0, ROWS, f.x_plain, X_ROWS);
		check_bounds(&f, bounds, whole, kernels[k]->name);
		if (k > 0 || cols < 2048)
			check_invariance(&f, kernels[k], whole);
	}
	free(bounds);
	free(out);
	drop(&f);
}

static void products(void** state) {
	(void)state;
	each_case(check_products);
}

/* Interleaved rows give the bits of the same rows as stored, for any number of activation rows and any range
 * of whole groups. */
static void check_interleaved(enum dtype type, int cols) {
	enum { INTERLEAVED_BATCH = 3 * INTERLEAVED_ROWS };
	bool any = false;
	for (int k = 0; k < n_kernels; k++)
		any |= kernels[k]->interleaves && kernels[k]->interleaves(type);
	if (!any)
		return;
	const size_t row = dtype_row_bytes(type, cols), block = dtype_block_bytes(type);
	struct fixture f = make(type, cols);
	uint8_t* stored = malloc(row * INTERLEAVED_BATCH);
	uint8_t* interleaved = aligned_alloc(64, row * INTERLEAVED_BATCH);
	float* want = malloc(sizeof(float) * X_ROWS * INTERLEAVED_BATCH);
	float* got = malloc(sizeof(float) * X_ROWS * INTERLEAVED_BATCH);
	for (size_t at = 0; at < row * INTERLEAVED_BATCH; at += block)
		random_block(type, stored + at);
	for (size_t r = 0; r < INTERLEAVED_BATCH; r += INTERLEAVED_ROWS)
		interleave_rows(type, interleaved + r * row, stored + r * row, cols);
	const struct tensor plainly = {.type = type, .rows = INTERLEAVED_BATCH, .cols = cols, .data = stored};
	struct tensor side_by_side = plainly;
	side_by_side.interleaved = true;
	side_by_side.data = interleaved;
	for (int k = 0; k < n_kernels; k++)
		for (int n = 1; n <= X_ROWS; n += n < 18 ? 1 : 37) {
			const int begin = n % 3 * INTERLEAVED_ROWS,
			          end = n % 2 ? INTERLEAVED_BATCH : begin + INTERLEAVED_ROWS;
			if (!kernels[k]->interleaves || !kernels[k]->interleaves(type))
				continue;
			memset(got, 0xaa, sizeof(float) * X_ROWS * INTERLEAVED_BATCH);
			memcpy(want, got, sizeof(float) * X_ROWS * INTERLEAVED_BATCH);
			kernels[k]->matmul(want, INTERLEAVED_BATCH, &plainly, begin, end, f.x_plain, n);
			kernels[k]->matmul(got, INTERLEAVED_BATCH, &side_by_side, begin, end, f.x_plain, n);
			if (memcmp(got, want, sizeof(float) * X_ROWS * INTERLEAVED_BATCH))
				fail_msg("%s, %s, %d columns, %d rows: interleaved weights give other bits", kernels[k]->name,
				         dtype_name(type), cols, n);
		}
	free(stored);
	free(interleaved);
	free(want);
	free(got);
	drop(&f);
}

static void interleaved(void** state) {
	(void)state;
	each_case(check_interleaved);
}

/* interleave_rows against what deinterleave_block finds */
static void check_interleaved_order(enum dtype type, int cols) {
	const size_t row = dtype_row_bytes(type, cols), block = dtype_block_bytes(type);
	if (dtype_block(type) == 1 || block % 2)
		return;
	uint8_t *stored = malloc(row * INTERLEAVED_ROWS), *interleaved = malloc(row * INTERLEAVED_ROWS),
	        *one = malloc(block);
	for (size_t at = 0; at < row * INTERLEAVED_ROWS; at += block)
		random_block(type, stored + at);
	interleave_rows(type, interleaved, stored, cols);
	for (size_t at = 0; at < row * INTERLEAVED_ROWS; at += block) {
		deinterleave_block(type, one, interleaved + at % row * INTERLEAVED_ROWS, (int)(at / row));
		assert_memory_equal(one, stored + at, block);
	}
	free(stored);
	free(interleaved);
	free(one);
}

static void interleaved_order(void** state) {
	(void)state;
	each_case(check_interleaved_order);
}

/* Interleaved q4_0 where it is had: the plain product within rounding, and the same bits for any number of
 * activation rows and any range of whole groups. */
static void check_interleaved_small(int cols) {
	enum { INTERLEAVED_BATCH = 2 * INTERLEAVED_ROWS };
	const size_t row = dtype_row_bytes(DTYPE_Q4_0, cols), block = sizeof(struct block_q4_0);
	struct fixture f = make(DTYPE_Q4_0, cols);
	struct bounds* bounds = find_bounds(&f);
	uint8_t* stored = calloc(INTERLEAVED_BATCH, row);
	uint8_t* interleaved = aligned_alloc(64, row * INTERLEAVED_BATCH);
	float* got = malloc(sizeof(float) * X_ROWS * INTERLEAVED_BATCH);
	float some[X_ROWS * INTERLEAVED_BATCH];
	memcpy(stored, f.w.data, row * ROWS);
	for (size_t at = 0; at < row * INTERLEAVED_BATCH; at += block) {
		const size_t r = at / row, b = at % row / block;
		uint8_t* group =
		    interleaved + r / INTERLEAVED_ROWS * INTERLEAVED_ROWS * row + b * INTERLEAVED_ROWS * block;
		memcpy(group + r % INTERLEAVED_ROWS * 2, stored + at, 2);
		interleave(group + INTERLEAVED_ROWS * 2, stored + at + 2, (int)(r % INTERLEAVED_ROWS), block - 2);
	}
	const struct tensor w = {.type = DTYPE_Q4_0,
	                         .interleaved = true,
	                         .rows = INTERLEAVED_BATCH,
	                         .cols = cols,
	                         .data = interleaved};
	float* compact = malloc(sizeof(float) * X_ROWS * ROWS);
	for (int k = 0; k < n_kernels; k++) {
		kernels[k]->matmul(got, INTERLEAVED_BATCH, &w, 0, INTERLEAVED_BATCH, f.x_plain, X_ROWS);
		for (int i = 0; i < X_ROWS; i++)
			memcpy(compact + i * ROWS, got + i * INTERLEAVED_BATCH, sizeof(float) * ROWS);
		check_bounds(&f, bounds, compact, kernels[k]->name);
		for (int n = 1; n <= X_ROWS; n += n < 18 ? 1 : 37) {
			const int begin = n % 2 * INTERLEAVED_ROWS;
			memcpy(some, got, sizeof some);
			for (int i = 0; i < n; i++)
				memset(some + i * INTERLEAVED_BATCH + begin, 0xaa,
				       sizeof(float) * (size_t)(INTERLEAVED_BATCH - begin));
			kernels[k]->matmul(some, INTERLEAVED_BATCH, &w, begin, INTERLEAVED_BATCH, f.x_plain, n);
			assert_memory_equal(some, got, sizeof some);
		}
	}
	free(stored);
	free(interleaved);
	free(got);
	free(compact);
	free(bounds);
	drop(&f);
}

static void interleaved_small(void** state) {
	(void)state;
	for (size_t c = 0; c < sizeof small_cols / sizeof *small_cols; c++)
		check_interleaved_small(small_cols[c]);
}

/* Every instruction set prepares the same bytes. */
static void check_prepared(enum dtype type, int cols) {
	struct fixture f = make(type, cols);
	const size_t bytes = reference_prepared_bytes(type, cols);
	uint8_t* out = malloc(bytes);
	for (int k = 1; k < n_kernels; k++) {
		for (int i = 0; i < 4; i++) {
			memset(out, 0xaa, bytes);
			kernels[k]->prepare(type, out, f.x + i * cols, cols);
			if (memcmp(out, f.x_plain + (size_t)i * bytes, bytes))
				fail_msg("%s prepares row %d of %d columns for %s otherwise", kernels[k]->name, i, cols,
				         dtype_name(type));
		}
	}
	free(out);
	drop(&f);
}

static void prepared(void** state) {
	(void)state;
	each_case(check_prepared);
}

/* A value that is not finite reaches the outputs of its row as such, and of no other row. */
static void check_not_finite(enum dtype type, int cols) {
	struct fixture f = make(type, cols);
	const size_t bytes = reference_prepared_bytes(type, cols);
	uint8_t* x = aligned_alloc(64, bytes * 3);
	float out[3 * ROWS];
	const float bad[2] = {NAN, -INFINITY};
	for (int k = 0; k < n_kernels; k++)
		for (int b = 0; b < 2; b++) {
			const float kept = f.x[cols + cols - 1];
			f.x[cols + cols - 1] = bad[b];
			for (int i = 0; i < 3; i++)
				kernels[k]->prepare(type, x + (size_t)i * bytes, f.x + i * cols, cols);
			f.x[cols + cols - 1] = kept;
			kernels[k]->matmul(out, ROWS, &f.w, 0, ROWS, x, 3);
			for (int r = 0; r < ROWS; r++)
				if (!isfinite(out[r]) || isfinite(out[ROWS + r]) || !isfinite(out[2 * ROWS + r]))
					fail_msg("%s %s cols %d: %g %g %g", kernels[k]->name, dtype_name(type), cols,
					         (double)out[r], (double)out[ROWS + r], (double)out[2 * ROWS + r]);
		}
	free(x);
	drop(&f);
}

static void not_finite(void** state) {
	(void)state;
	each_case(check_not_finite);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(products),          cmocka_unit_test(interleaved),
	    cmocka_unit_test(interleaved_order), cmocka_unit_test(interleaved_small),
	    cmocka_unit_test(prepared),          cmocka_unit_test(not_finite)};
	return cmocka_run_group_tests(tests, find_kernels, NULL);
}
