/* The regression: observations, the Cholesky factor that grows with them, predictions. */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gp/internal.h"

/* Sets OpenBLAS's own threads: they would compete with the caller's for cores, and matrices of a thousand
 * rows gain little from them. */
void openblas_set_num_threads(int);

void set_up_libraries(void) {
	gsl_set_error_handler_off();
	openblas_set_num_threads(1);
}

bool hyper_valid(const struct gp_hyper* h, int groups) {
	bool good = isfinite(h->amplitude) && h->amplitude > 0 && isfinite(h->window) && h->window > 0;
	for (int i = 0; i < groups; i++)
		good = good && isfinite(h->length[i]) && h->length[i] > 0;
	return good;
}

static bool group_dimensions(struct gp* g) {
	g->groups = 1;
	for (int i = 0; i < g->option.dims; i++) {
		const int group = g->option.group ? g->option.group[i] : 0;
		if (group >= GP_MAX_GROUPS)
			return false;
		if (group + 1 > g->groups)
			g->groups = group + 1;
		g->group[i] = (uint8_t)group;
		g->group_dims[group]++;
		g->group_mask[group][i >> 6] |= (uint64_t)1 << (i & 63);
	}
	g->option.group = NULL;
	g->stride = g->group_dims[1] + 1;
	g->cells = (g->group_dims[0] + 1) * g->stride;
	return hyper_valid(&g->option.hyper, g->groups);
}

/* (n, n) zeros in pages that take memory once they are written to. calloc guarantees that only for memory
 * that was never used before. NULL: no memory. */
static double* square_open(size_t n) {
	void* m = mmap(NULL, n * n * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return m == MAP_FAILED ? NULL : m;
}

static void square_close(double* square, size_t n) {
	if (square)
		munmap(square, n * n * sizeof(double));
}

static bool take_memory(struct gp* g) {
	const size_t n = (size_t)g->option.capacity, cells = (size_t)g->cells;
	const struct {
		double** vector;
		size_t size;
	} part[] = {{&g->half_y, n},          {&g->half_one, n},
	            {&g->alpha, n},           {&g->work, n * (BATCH + 4)},
	            {&g->histogram, cells},   {&g->table.value, cells},
	            {&g->table.slope, cells}, {&g->trial.value, cells},
	            {&g->trial.slope, cells}};
	g->observation = calloc(n, sizeof *g->observation);
	g->factor = square_open(n);
	g->scratch = square_open(n);
	g->vectors = calloc(n * (BATCH + 7) + cells * 5, sizeof *g->vectors);
	if (!g->observation || !g->factor || !g->scratch || !g->vectors)
		return false;
	double* next = g->vectors;
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		*part[i].vector = next;
		next += part[i].size;
	}
	return true;
}

struct gp* gp_open(const struct gp_options* o) {
	if (o->dims < 1 || o->dims > GP_MAX_DIMS || o->capacity < 1 || o->capacity > 8192 || !(o->jitter > 0))
		return NULL;
	struct gp* g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	g->option = *o;
	g->words = (o->dims + 63) / 64;
	g->hyper = o->hyper;
	g->jitter = o->jitter;
	if (!group_dimensions(g) || !take_memory(g)) {
		gp_close(g);
		return NULL;
	}
	set_up_libraries();
	table_fill(g, &g->hyper, &g->table);
	return g;
}

void gp_close(struct gp* g) {
	if (!g)
		return;
	free(g->observation);
	square_close(g->factor, (size_t)g->option.capacity);
	square_close(g->scratch, (size_t)g->option.capacity);
	free(g->vectors);
	free(g);
}

int gp_count(const struct gp* g) { return g->n; }

bool gp_observed(const struct gp* g, const uint64_t* bits) {
	for (int i = 0; i < g->n; i++)
		if (memcmp(point(g, i), bits, (size_t)g->words * sizeof *bits) == 0)
			return true;
	return false;
}

gsl_matrix_view square(const struct gp* g, double* data) {
	return gsl_matrix_view_array_with_tda(data, (size_t)g->n, (size_t)g->n, (size_t)g->option.capacity);
}

/* ---- the factor --------------------------------------------------------------------------- */

static double covariance(const struct gp* g, const struct table* t, double window, int i, int j) {
	const double offset = same_window(g, i, j) || i == j ? window * window : 0;
	return t->value[cell_of(g, point(g, i), point(g, j))] + offset;
}

enum gp_result covariance_factor(const struct gp* g, const struct gp_hyper* h, const struct table* t,
                                 double jitter, double* matrix) {
	for (int i = 0; i < g->n; i++) {
		double* row = matrix + (size_t)i * (size_t)g->option.capacity;
		for (int j = 0; j <= i; j++)
			row[j] = covariance(g, t, h->window, i, j);
		row[i] += g->observation[i].variance + jitter;
	}
	if (g->n == 0)
		return GP_OK;
	gsl_matrix_view view = square(g, matrix);
	return gsl_linalg_cholesky_decomp1(&view.matrix) == GSL_SUCCESS ? GP_OK : GP_NOT_POSITIVE;
}

void solve_factor(const struct gp* g, const double* factor, enum CBLAS_TRANSPOSE transpose, double* x) {
	cblas_dtrsv(CblasRowMajor, CblasLower, transpose, CblasNonUnit, g->n, factor, g->option.capacity, x, 1);
}

void halve(const struct gp* g, const double* factor, double* half_y, double* half_one) {
	for (int i = 0; i < g->n; i++) {
		half_y[i] = g->observation[i].y;
		half_one[i] = 1;
	}
	solve_factor(g, factor, CblasNoTrans, half_y);
	solve_factor(g, factor, CblasNoTrans, half_one);
}

double solve_halves(const struct gp* g, const double* factor, const double* half_y, const double* half_one,
                    double* alpha, double* mean) {
	const int n = g->n;
	*mean = cblas_ddot(n, half_one, 1, half_y, 1) / cblas_ddot(n, half_one, 1, half_one, 1);
	memcpy(alpha, half_y, (size_t)n * sizeof *alpha);
	cblas_daxpy(n, -*mean, half_one, 1, alpha, 1);
	const double fit = cblas_ddot(n, alpha, 1, alpha, 1);
	solve_factor(g, factor, CblasTrans, alpha);
	return fit;
}

static void solve(struct gp* g) { solve_halves(g, g->factor, g->half_y, g->half_one, g->alpha, &g->mean); }

static enum gp_result rebuild_factor(struct gp* g) {
	enum gp_result result = covariance_factor(g, &g->hyper, &g->table, g->option.jitter, g->factor);
	g->jitter = g->option.jitter;
	for (int raise = 0; raise < 6 && result != GP_OK; raise++) {
		g->jitter *= 10;
		result = covariance_factor(g, &g->hyper, &g->table, g->jitter, g->factor);
	}
	if (result != GP_OK || g->n == 0)
		return result;
	halve(g, g->factor, g->half_y, g->half_one);
	solve(g);
	return GP_OK;
}

/* The factor's next row: solves L v = k; the diagonal is the root of the rest. */
static bool grow_arrays(struct gp* g) {
	const int n = g->n;
	double* row = g->factor + (size_t)n * (size_t)g->option.capacity;
	for (int j = 0; j < n; j++)
		row[j] = covariance(g, &g->table, g->hyper.window, n, j);
	const struct observation* o = &g->observation[n];
	const double own = covariance(g, &g->table, g->hyper.window, n, n) + o->variance + g->jitter;
	solve_factor(g, g->factor, CblasNoTrans, row);
	const double left = own - cblas_ddot(n, row, 1, row, 1);
	if (!(left > 1e-12 * own))
		return false;
	row[n] = sqrt(left);
	g->half_y[n] = (o->y - cblas_ddot(n, row, 1, g->half_y, 1)) / row[n];
	g->half_one[n] = (1 - cblas_ddot(n, row, 1, g->half_one, 1)) / row[n];
	g->n++;
	return true;
}

enum gp_result gp_add(struct gp* g, const uint64_t* bits, double y, double variance, int64_t window) {
	if (!isfinite(y) || !isfinite(variance) || variance < 0)
		return GP_INVALID;
	if (g->n == g->option.capacity)
		return GP_FULL;
	struct observation* o = &g->observation[g->n];
	*o = (struct observation){.y = y, .variance = variance, .window = window};
	for (int w = 0; w < g->words; w++)
		o->bits[w] = bits[w] & (g->group_mask[0][w] | g->group_mask[1][w]);
	if (grow_arrays(g)) {
		solve(g);
		return GP_OK;
	}
	g->n++;
	const enum gp_result result = rebuild_factor(g);
	if (result == GP_OK)
		return GP_OK;
	g->n--;
	rebuild_factor(g);
	return result;
}

enum gp_result gp_forget(struct gp* g, int keep) {
	if (keep < 0)
		return GP_INVALID;
	if (keep >= g->n)
		return GP_OK;
	memmove(g->observation, g->observation + g->n - keep, (size_t)keep * sizeof *g->observation);
	g->n = keep;
	return rebuild_factor(g);
}

struct gp_hyper gp_hyper(const struct gp* g) {
	struct gp_hyper hyper = g->hyper;
	hyper.mean = g->mean;
	return hyper;
}

enum gp_result gp_set_hyper(struct gp* g, const struct gp_hyper* h) {
	if (!hyper_valid(h, g->groups))
		return GP_INVALID;
	const struct gp_hyper before = g->hyper;
	g->hyper = *h;
	table_fill(g, h, &g->table);
	const enum gp_result result = rebuild_factor(g);
	if (result == GP_OK)
		return GP_OK;
	g->hyper = before;
	table_fill(g, &before, &g->table);
	rebuild_factor(g);
	return result;
}

/* ---- predictions -------------------------------------------------------------------------- */

void gp_predict(struct gp* g, const uint64_t* bits, double* mean, double* variance) {
	*mean = g->mean;
	double* k = g->work;
	for (int i = 0; i < g->n; i++) {
		k[i] = g->table.value[cell_of(g, point(g, i), bits)];
		*mean += k[i] * g->alpha[i];
	}
	if (!variance)
		return;
	solve_factor(g, g->factor, CblasNoTrans, k);
	*variance = fmax(0, g->hyper.amplitude * g->hyper.amplitude - cblas_ddot(g->n, k, 1, k, 1));
}
