/* The process: its kernels, its memory, observations and predictions. */
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

static void set_up_libraries(void) {
	gsl_set_error_handler_off();
	openblas_set_num_threads(1);
}

/* ---- the kernels -------------------------------------------------------------------------- */

int kernel_power(enum gp_kernel kernel) { return kernel == GP_MATERN52 ? 2 : 1; }

double kernel_at(enum gp_kernel kernel, double amplitude, double s, double* slope) {
	const double square = amplitude * amplitude;
	if (kernel == GP_HAMMING) {
		const double k = square * exp(-s);
		*slope = -k;
		return k;
	}
	/* s = r²; dk/ds = -5/6 (1 + √5 r) exp(-√5 r). */
	const double x = sqrt(5 * (s > 0 ? s : 0)), decay = square * exp(-x);
	*slope = -5.0 / 6 * (1 + x) * decay;
	return (1 + x + x * x / 3) * decay;
}

void kernel_weights(const struct gp* g, const struct gp_hyper* h, double weight[GP_MAX_GROUPS]) {
	for (int i = 0; i < g->groups; i++)
		weight[i] = pow(h->length[i], -kernel_power(g->option.kernel));
}

double kernel_between(const struct gp* g, const struct gp_hyper* h, const double weight[GP_MAX_GROUPS], int i,
                      int j, double* slope) {
	const size_t all = (size_t)g->option.capacity * (size_t)g->option.capacity;
	double s = 0;
	for (int k = 0; k < g->groups; k++)
		s += weight[k] * g->distance[(size_t)k * all + pair_at(g, i, j)];
	return kernel_at(g->option.kernel, h->amplitude, s, slope);
}

/* The covariance of any two points, under the hyper-parameters in use. */
static double kernel_of(const struct gp* g, const double weight[GP_MAX_GROUPS], const double* x,
                        const double* z) {
	double s = 0, slope;
	for (int d = 0; d < g->option.dims; d++)
		s += weight[g->group[d]] * (x[d] - z[d]) * (x[d] - z[d]);
	return kernel_at(g->option.kernel, g->hyper.amplitude, s, &slope);
}

/* ---- hyper-parameters --------------------------------------------------------------------- */

double* hyper_parameter(const struct gp* g, struct gp_hyper* h, int i) {
	return i == 0               ? &h->amplitude
	       : i <= g->groups     ? &h->length[i - 1]
	       : i == g->groups + 1 ? &h->window
	                            : &h->noise;
}

int hyper_count(const struct gp* g) { return g->groups + 2 + !g->option.known_noise; }

bool hyper_valid(const struct gp* g, const struct gp_hyper* hyper) {
	struct gp_hyper h = *hyper;
	for (int i = 0; i < g->groups + 3; i++)
		if (!(*hyper_parameter(g, &h, i) > 0 && isfinite(*hyper_parameter(g, &h, i))))
			return false;
	return true;
}

/* ---- opening ------------------------------------------------------------------------------ */

static bool group_dimensions(struct gp* g) {
	for (int i = 0; i < g->option.dims; i++) {
		const int group = g->option.group ? g->option.group[i] : i;
		if (group >= GP_MAX_GROUPS)
			return false;
		g->groups = group + 1 > g->groups ? group + 1 : g->groups;
		g->group[i] = (uint8_t)group;
	}
	g->option.group = NULL;
	return hyper_valid(g, &g->option.hyper);
}

static size_t square_bytes(const struct gp* g) {
	const size_t n = (size_t)g->option.capacity;
	return ((size_t)g->groups + 2) * n * n * sizeof(double);
}

static bool take_memory(struct gp* g) {
	const size_t n = (size_t)g->option.capacity;
	g->observation = calloc(n, sizeof *g->observation);
	g->point = calloc(n * (size_t)g->option.dims, sizeof *g->point);
	g->half_y = calloc(7 * n, sizeof *g->half_y);
	/* pages that take memory once they are written to; calloc guarantees that only for memory that was never
	 * used before */
	void* squares = mmap(NULL, square_bytes(g), PROT_READ | PROT_WRITE,
	                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	g->squares = squares == MAP_FAILED ? NULL : squares;
	if (!g->observation || !g->point || !g->half_y || !g->squares)
		return false;
	g->half_one = g->half_y + n;
	g->alpha = g->half_one + n;
	g->work = g->alpha + n;
	g->factor = g->squares;
	g->scratch = g->factor + n * n;
	g->distance = g->scratch + n * n;
	return true;
}

struct gp* gp_open(const struct gp_options* o) {
	if (o->dims < 1 || o->dims > GP_MAX_DIMS || o->capacity < 1 || o->capacity > 2048 || !(o->jitter > 0) ||
	    !(o->prior_width >= 0))
		return NULL;
	struct gp* g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	g->option = *o;
	g->hyper = o->hyper;
	g->jitter = o->jitter;
	if (!group_dimensions(g) || !take_memory(g)) {
		gp_close(g);
		return NULL;
	}
	set_up_libraries();
	return g;
}

void gp_close(struct gp* g) {
	if (!g)
		return;
	free(g->observation);
	free(g->point);
	free(g->half_y);
	if (g->squares)
		munmap(g->squares, square_bytes(g));
	free(g);
}

int gp_count(const struct gp* g) { return g->n; }

bool gp_observed(const struct gp* g, const double* x) {
	for (int i = 0; i < g->n; i++)
		if (memcmp(point_at(g, i), x, (size_t)g->option.dims * sizeof *x) == 0)
			return true;
	return false;
}

gsl_matrix_view square(const struct gp* g, double* data) {
	return gsl_matrix_view_array_with_tda(data, (size_t)g->n, (size_t)g->n, (size_t)g->option.capacity);
}

/* ---- the factor --------------------------------------------------------------------------- */

/* The covariance of observations j <= i, without jitter. */
static double compute_covariance(const struct gp* g, const struct gp_hyper* h, const double* weight, int i,
                                 int j) {
	double slope;
	return kernel_between(g, h, weight, i, j, &slope) + (share_window(g, i, j) ? h->window * h->window : 0) +
	       (i == j ? h->noise * h->noise * g->observation[i].variance : 0);
}

enum gp_result covariance_factor(const struct gp* g, const struct gp_hyper* h, double jitter,
                                 double* matrix) {
	double weight[GP_MAX_GROUPS];
	kernel_weights(g, h, weight);
	for (int i = 0; i < g->n; i++) {
		for (int j = 0; j <= i; j++)
			matrix[pair_at(g, i, j)] = compute_covariance(g, h, weight, i, j);
		matrix[pair_at(g, i, i)] += jitter;
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

static void solve_system(struct gp* g) {
	solve_halves(g, g->factor, g->half_y, g->half_one, g->alpha, &g->mean);
}

static enum gp_result rebuild_factor(struct gp* g) {
	g->jitter = g->option.jitter;
	g->mean = 0;
	enum gp_result result = covariance_factor(g, &g->hyper, g->jitter, g->factor);
	for (int raise = 0; raise < 6 && result != GP_OK; raise++)
		result = covariance_factor(g, &g->hyper, g->jitter *= 10, g->factor);
	if (result != GP_OK || g->n == 0)
		return result;
	halve(g, g->factor, g->half_y, g->half_one);
	solve_system(g);
	return GP_OK;
}

/* The factor's next row: solves L v = k; the diagonal is the root of the rest. */
static bool grow_factor(struct gp* g) {
	const int n = g->n;
	double weight[GP_MAX_GROUPS], *const row = g->factor + pair_at(g, n, 0);
	kernel_weights(g, &g->hyper, weight);
	for (int j = 0; j < n; j++)
		row[j] = compute_covariance(g, &g->hyper, weight, n, j);
	const double own = compute_covariance(g, &g->hyper, weight, n, n) + g->jitter;
	solve_factor(g, g->factor, CblasNoTrans, row);
	const double left = own - cblas_ddot(n, row, 1, row, 1);
	if (!(left > 1e-12 * own))
		return false;
	row[n] = sqrt(left);
	g->half_y[n] = (g->observation[n].y - cblas_ddot(n, row, 1, g->half_y, 1)) / row[n];
	g->half_one[n] = (1 - cblas_ddot(n, row, 1, g->half_one, 1)) / row[n];
	g->n++;
	return true;
}

/* ---- observations ------------------------------------------------------------------------- */

/* d_g of observation i and all before it. */
static void measure_distances(struct gp* g, int i) {
	const size_t all = (size_t)g->option.capacity * (size_t)g->option.capacity;
	const double* const x = point_at(g, i);
	for (int j = 0; j <= i; j++) {
		const double* const z = point_at(g, j);
		double sum[GP_MAX_GROUPS] = {0};
		for (int d = 0; d < g->option.dims; d++)
			sum[g->group[d]] += (x[d] - z[d]) * (x[d] - z[d]);
		for (int k = 0; k < g->groups; k++)
			g->distance[(size_t)k * all + pair_at(g, i, j)] = sum[k];
	}
}

enum gp_result gp_add(struct gp* g, const double* x, double y, double variance, int64_t window) {
	if (!isfinite(y) || !isfinite(variance) || variance < 0)
		return GP_INVALID;
	for (int d = 0; d < g->option.dims; d++)
		if (!(x[d] >= 0 && x[d] <= 1))
			return GP_INVALID;
	if (g->n == g->option.capacity)
		return GP_FULL;
	g->observation[g->n] = (struct observation){.y = y, .variance = variance, .window = window};
	memcpy(g->point + (size_t)g->n * (size_t)g->option.dims, x, (size_t)g->option.dims * sizeof *x);
	measure_distances(g, g->n);
	if (grow_factor(g)) {
		solve_system(g);
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
	const size_t dims = (size_t)g->option.dims;
	if (keep < 0)
		return GP_INVALID;
	if (keep >= g->n)
		return GP_OK;
	const int gone = g->n - keep;
	memmove(g->observation, g->observation + gone, (size_t)keep * sizeof *g->observation);
	memmove(g->point, g->point + (size_t)gone * dims, (size_t)keep * dims * sizeof *g->point);
	g->n = keep;
	for (int i = 0; i < keep; i++)
		measure_distances(g, i);
	return rebuild_factor(g);
}

enum gp_result gp_set_hyper(struct gp* g, const struct gp_hyper* h) {
	if (!hyper_valid(g, h))
		return GP_INVALID;
	const struct gp_hyper before = g->hyper;
	g->hyper = *h;
	const enum gp_result result = rebuild_factor(g);
	if (result == GP_OK)
		return GP_OK;
	g->hyper = before;
	rebuild_factor(g);
	return result;
}

/* ---- predictions -------------------------------------------------------------------------- */

void gp_predict(const struct gp* g, const double* x, double* mean, double* variance) {
	double weight[GP_MAX_GROUPS], *const k = g->work;
	kernel_weights(g, &g->hyper, weight);
	*mean = g->mean;
	for (int i = 0; i < g->n; i++) {
		k[i] = kernel_of(g, weight, x, point_at(g, i));
		*mean += k[i] * g->alpha[i];
	}
	if (!variance)
		return;
	solve_factor(g, g->factor, CblasNoTrans, k);
	*variance = fmax(0, g->hyper.amplitude * g->hyper.amplitude - cblas_ddot(g->n, k, 1, k, 1));
}

void gp_compare(const struct gp* g, const double* x, const double* z, double* mean, double* deviation) {
	double weight[GP_MAX_GROUPS], *const k =
	                                  g->work; /* covariances of the difference with the observations */
	kernel_weights(g, &g->hyper, weight);
	*mean = 0;
	for (int i = 0; i < g->n; i++) {
		k[i] = kernel_of(g, weight, x, point_at(g, i)) - kernel_of(g, weight, z, point_at(g, i));
		*mean += k[i] * g->alpha[i];
	}
	const double before = 2 * (g->hyper.amplitude * g->hyper.amplitude - kernel_of(g, weight, x, z));
	solve_factor(g, g->factor, CblasNoTrans, k);
	*deviation = sqrt(fmax(0, before - cblas_ddot(g->n, k, 1, k, 1)));
}
