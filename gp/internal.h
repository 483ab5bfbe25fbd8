/* Shared by the files of the Gaussian process: its state, and the kernel as a table.
 *
 * Points are bits, so two of them differ in (h_0, h_1) bits of the groups, and the kernel has at most (d_0 +
 * 1)(d_1 + 1) values: a table, made once for each set of hyper-parameters. */
#ifndef SWIFTLET_GP_INTERNAL_H
#define SWIFTLET_GP_INTERNAL_H

#include <gsl/gsl_cblas.h>
#include <gsl/gsl_matrix.h>
#include <stddef.h>

#include "gp/gp.h"

enum { WORDS = (GP_MAX_DIMS + 63) / 64, BATCH = 16 };

struct observation {
	uint64_t bits[WORDS];
	double y, variance;
	int64_t window; /* as given */
};

struct table {
	double* value;                /* (cells) k at (h_0, h_1), amplitude included */
	double* slope;                /* (cells) dk/ds, s the weighted sum of the h_g */
	double weight[GP_MAX_GROUPS]; /* s = Σ weight_g h_g: 1/length² (Matérn) or 1/length (Hamming) */
};

struct gp {
	struct gp_options option;
	int words, groups, n;
	int group_dims[GP_MAX_GROUPS];
	uint8_t group[GP_MAX_DIMS];
	uint64_t group_mask[GP_MAX_GROUPS][WORDS];
	int cells, stride; /* of a table; cell = h_0·stride + h_1 */
	struct gp_hyper hyper;
	struct table table, trial; /* in use; of the likelihood's hyper-parameters */
	double jitter;             /* in use; raised when the covariance could not be factored */

	struct observation* observation; /* (capacity) */
	double* factor;                  /* (capacity, capacity) lower Cholesky factor of the covariance */
	double* scratch;                 /* (capacity, capacity) the likelihood's */
	double* vectors;                 /* the memory of these and of the tables: */
	double* half_y;                  /* (capacity) L⁻¹ y, grows with the factor */
	double* half_one;                /* (capacity) L⁻¹ 1 */
	double* alpha;                   /* (capacity) K⁻¹ (y - mean) */
	double* work;                    /* (BATCH + 4, capacity) */
	double* histogram;               /* (cells) */
	double mean;                     /* in use */
};

/* kernel.c */
void table_fill(const struct gp*, const struct gp_hyper*, struct table*);
/* k and dk/ds at a real s >= 0, for relaxed points. */
double kernel_at(enum gp_kernel, double amplitude, double s, double* slope);
/* Exponent p of weight = length^-p. */
int kernel_power(enum gp_kernel);
int cell_of(const struct gp*, const uint64_t* a, const uint64_t* b);
static inline const uint64_t* point(const struct gp* g, int i) { return g->observation[i].bits; }
static inline bool same_window(const struct gp* g, int i, int j) {
	const int64_t window = g->observation[i].window;
	return window != 0 && window == g->observation[j].window;
}

/* regression.c */
/* GSL then reports errors by its results, and OpenBLAS computes on the caller's thread. */
void set_up_libraries(void);
/* (n, n) in place: the lower triangle of the covariance under these, and its factor. Returns GP_OK or
 * GP_NOT_POSITIVE. */
enum gp_result covariance_factor(const struct gp*, const struct gp_hyper*, const struct table*, double jitter,
                                 double* matrix);
/* With the factor of all observations: x = L⁻¹ x, or with CblasTrans L'⁻¹ x. */
void solve_factor(const struct gp*, const double* factor, enum CBLAS_TRANSPOSE, double* x);
/* half_y = L⁻¹ y, half_one = L⁻¹ 1. */
void halve(const struct gp*, const double* factor, double* half_y, double* half_one);
/* From these halves: the mean, profiled (1'K⁻¹y / 1'K⁻¹1), and alpha = K⁻¹(y - mean). Returns
 * (y - mean)'alpha. */
double solve_halves(const struct gp*, const double* factor, const double* half_y, const double* half_one,
                    double* alpha, double* mean);
gsl_matrix_view square(const struct gp*, double* data);
/* All of them finite and over 0. */
bool hyper_valid(const struct gp_hyper*, int groups);

#endif
