/* The regression itself: observations, the Cholesky factor that grows with them, predictions. */
#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gp/internal.h"

/* OpenBLAS's own; its helper threads would compete with the caller's for cores, and matrices of a thousand
 * rows gain little from them. */
void openblas_set_num_threads(int);

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

/* (n, n) zeros in pages that exist once they are written to. calloc promises that only of memory that was
 * never used before. NULL: there is none. */
static double* square_open(size_t n) {
	void* m = mmap(NULL, n * n * sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return m == MAP_FAILED ? NULL : m;
}

static void square_close(double* square, size_t n) {
	if (square)
		munmap(square, n * n * sizeof(double));
}

static bool take_memory(struct gp* g) {
	const size_t n = (size_t)g->option.capacity;
	g->bits = calloc(n * (size_t)g->words, sizeof *g->bits);
	g->y = calloc(n, sizeof *g->y);
	g->variance = calloc(n, sizeof *g->variance);
	g->window = calloc(n, sizeof *g->window);
	g->factor = square_open(n);
	g->scratch = square_open(n);
	g->half_y = calloc(n, sizeof *g->half_y);
	g->half_one = calloc(n, sizeof *g->half_one);
	g->alpha = calloc(n, sizeof *g->alpha);
	g->work = calloc(n * (BATCH + 4), sizeof *g->work);
	g->histogram = calloc((size_t)g->cells, sizeof *g->histogram);
	return g->bits && g->y && g->variance && g->window && g->factor && g->scratch && g->half_y &&
	       g->half_one && g->alpha && g->work && g->histogram && table_open(g, &g->table) &&
	       table_open(g, &g->trial);
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
	gsl_set_error_handler_off();
	openblas_set_num_threads(1);
	table_fill(g, &g->hyper, &g->table);
	return g;
}

void gp_close(struct gp* g) {
	if (!g)
		return;
	table_close(&g->table);
	table_close(&g->trial);
	free(g->bits);
	free(g->y);
	free(g->variance);
	free(g->window);
	square_close(g->factor, (size_t)g->option.capacity);
	square_close(g->scratch, (size_t)g->option.capacity);
	free(g->half_y);
	free(g->half_one);
	free(g->alpha);
	free(g->work);
	free(g->histogram);
	free(g);
}

int gp_count(const struct gp* g) { return g->n; }

bool gp_observed(const struct gp* g, const uint64_t* bits) {
	for (int i = 0; i < g->n; i++)
		if (memcmp(point(g, i), bits, (size_t)g->words * sizeof *bits) == 0)
			return true;
	return false;
}

gsl_matrix_view square(double* data, int n, int capacity) {
	return gsl_matrix_view_array_with_tda(data, (size_t)n, (size_t)n, (size_t)capacity);
}

/* ---- the factor --------------------------------------------------------------------------- */

static double covariance(const struct gp* g, const struct table* t, double window, int i, int j) {
	const double offset = same_window(g, i, j) || i == j ? window * window : 0;
	return t->value[cell_of(g, point(g, i), point(g, j))] + offset;
}

enum gp_result covariance_factor(const struct gp* g, const struct gp_hyper* h, const struct table* t,
                                 double jitter, const int* chosen, int n, double* matrix) {
	const size_t row = (size_t)g->option.capacity;
	for (int i = 0; i < n; i++) {
		const int a = chosen ? chosen[i] : i;
		for (int j = 0; j <= i; j++)
			matrix[(size_t)i * row + (size_t)j] = covariance(g, t, h->window, a, chosen ? chosen[j] : j);
		matrix[(size_t)i * row + (size_t)i] += g->variance[a] + jitter;
	}
	if (n == 0)
		return GP_OK;
	gsl_matrix_view view = square(matrix, n, g->option.capacity);
	return gsl_linalg_cholesky_decomp1(&view.matrix) == GSL_SUCCESS ? GP_OK : GP_NOT_POSITIVE;
}

/* The mean (profiled: 1'K⁻¹y / 1'K⁻¹1, from the halves) and alpha = K⁻¹(y - mean). */
static void solve(struct gp* g) {
	if (g->n == 0)
		return;
	const size_t n = (size_t)g->n;
	gsl_vector_view y = gsl_vector_view_array(g->half_y, n), one = gsl_vector_view_array(g->half_one, n);
	double cross = 0, own = 1;
	gsl_blas_ddot(&one.vector, &y.vector, &cross);
	gsl_blas_ddot(&one.vector, &one.vector, &own);
	g->mean = cross / own;
	gsl_vector_view alpha = gsl_vector_view_array(g->alpha, n);
	gsl_vector_memcpy(&alpha.vector, &y.vector);
	gsl_blas_daxpy(-g->mean, &one.vector, &alpha.vector);
	gsl_matrix_view l = square(g->factor, g->n, g->option.capacity);
	gsl_blas_dtrsv(CblasLower, CblasTrans, CblasNonUnit, &l.matrix, &alpha.vector);
}

/* half_y = L⁻¹ y */
static void halve_y(struct gp* g) {
	memcpy(g->half_y, g->y, (size_t)g->n * sizeof *g->y);
	gsl_matrix_view l = square(g->factor, g->n, g->option.capacity);
	gsl_vector_view y = gsl_vector_view_array(g->half_y, (size_t)g->n);
	gsl_blas_dtrsv(CblasLower, CblasNoTrans, CblasNonUnit, &l.matrix, &y.vector);
}

static enum gp_result rebuild(struct gp* g) {
	enum gp_result result =
	    covariance_factor(g, &g->hyper, &g->table, g->option.jitter, NULL, g->n, g->factor);
	g->jitter = g->option.jitter;
	for (int raise = 0; raise < 6 && result != GP_OK; raise++) {
		g->jitter *= 10;
		result = covariance_factor(g, &g->hyper, &g->table, g->jitter, NULL, g->n, g->factor);
	}
	if (result != GP_OK || g->n == 0)
		return result;
	const size_t n = (size_t)g->n;
	gsl_matrix_view l = square(g->factor, g->n, g->option.capacity);
	gsl_vector_view one = gsl_vector_view_array(g->half_one, n);
	gsl_vector_set_all(&one.vector, 1);
	gsl_blas_dtrsv(CblasLower, CblasNoTrans, CblasNonUnit, &l.matrix, &one.vector);
	halve_y(g);
	solve(g);
	return GP_OK;
}

/* The factor's next row: L v = k, then the root of what is left on the diagonal. */
static bool grow(struct gp* g) {
	const int n = g->n;
	double* row = g->factor + (size_t)n * (size_t)g->option.capacity;
	for (int j = 0; j < n; j++)
		row[j] = covariance(g, &g->table, g->hyper.window, n, j);
	const double own = covariance(g, &g->table, g->hyper.window, n, n) + g->variance[n] + g->jitter;
	double used = 0, y = g->y[n], one = 1;
	if (n > 0) {
		const size_t size = (size_t)n;
		gsl_matrix_view l = square(g->factor, n, g->option.capacity);
		gsl_vector_view v = gsl_vector_view_array(row, size);
		gsl_vector_view half_y = gsl_vector_view_array(g->half_y, size);
		gsl_vector_view half_one = gsl_vector_view_array(g->half_one, size);
		gsl_blas_dtrsv(CblasLower, CblasNoTrans, CblasNonUnit, &l.matrix, &v.vector);
		double along_y = 0, along_one = 0;
		gsl_blas_ddot(&v.vector, &v.vector, &used);
		gsl_blas_ddot(&v.vector, &half_y.vector, &along_y);
		gsl_blas_ddot(&v.vector, &half_one.vector, &along_one);
		y -= along_y;
		one -= along_one;
	}
	const double left = own - used;
	if (!(left > 1e-12 * own))
		return false;
	row[n] = sqrt(left);
	g->half_y[n] = y / row[n];
	g->half_one[n] = one / row[n];
	g->n++;
	return true;
}

enum gp_result gp_add(struct gp* g, const uint64_t* bits, double y, double variance, int64_t window) {
	if (!isfinite(y) || !isfinite(variance) || variance < 0)
		return GP_INVALID;
	if (g->n == g->option.capacity)
		return GP_FULL;
	uint64_t* mine = g->bits + (size_t)g->n * (size_t)g->words;
	for (int w = 0; w < g->words; w++)
		mine[w] = bits[w] & (g->group_mask[0][w] | g->group_mask[1][w]);
	g->y[g->n] = y;
	g->variance[g->n] = variance;
	g->window[g->n] = window;
	if (grow(g)) {
		solve(g);
		return GP_OK;
	}
	g->n++;
	const enum gp_result result = rebuild(g);
	if (result == GP_OK)
		return GP_OK;
	g->n--;
	rebuild(g);
	return result;
}

enum gp_result gp_forget(struct gp* g, int keep) {
	if (keep < 0)
		return GP_INVALID;
	if (keep >= g->n)
		return GP_OK;
	const size_t from = (size_t)(g->n - keep), left = (size_t)keep, words = (size_t)g->words;
	memmove(g->bits, g->bits + from * words, left * words * sizeof *g->bits);
	memmove(g->y, g->y + from, left * sizeof *g->y);
	memmove(g->variance, g->variance + from, left * sizeof *g->variance);
	memmove(g->window, g->window + from, left * sizeof *g->window);
	g->n = keep;
	return rebuild(g);
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
	const enum gp_result result = rebuild(g);
	if (result == GP_OK)
		return GP_OK;
	g->hyper = before;
	table_fill(g, &before, &g->table);
	rebuild(g);
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
	*variance = g->hyper.amplitude * g->hyper.amplitude;
	if (g->n == 0)
		return;
	double used = 0;
	gsl_matrix_view l = square(g->factor, g->n, g->option.capacity);
	gsl_vector_view v = gsl_vector_view_array(k, (size_t)g->n);
	gsl_blas_dtrsv(CblasLower, CblasNoTrans, CblasNonUnit, &l.matrix, &v.vector);
	gsl_blas_ddot(&v.vector, &v.vector, &used);
	*variance = *variance > used ? *variance - used : 0;
}
