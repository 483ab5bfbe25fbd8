/* Bayesian linear regression over bit vectors, one observation at a time.
 *
 * y = share·offset + sum of weight[i] over the bits that are set + constant + noise: the weight-space view of
 * a Gaussian process with a linear kernel. An observation costs O(d^2) and no factorisation, so it can be
 * used where a Gaussian process would be too slow. `offset` belongs to a group of observations (one
 * evaluation set) and is forgotten when the next group begins. The constant and offsets are normal about
 * zero. Nothing is allocated after linear_open. Not locked. */
#ifndef SWIFTLET_GP_LINEAR_H
#define SWIFTLET_GP_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

struct linear_options {
	int dims; /* bits, 1..1024; vectors are (dims + 63) / 64 words */
	double constant_sd, offset_sd;
	uint64_t seed; /* of the draws */
};

struct linear_model;
/* NULL when an option is out of range or there is no memory. Takes 16·(dims + 2)^2 bytes. Call linear_begin
 * next. */
struct linear_model* linear_open(const struct linear_options*);
void linear_close(struct linear_model*);

/* A prior that is known up to a common factor: weight[i] is mean[i]·(1 + scale_sd·g) + sd[i]·n, g and n
 * standard normal, g shared by the weights under `split`; those from there on have none. mean, sd (dims), sd
 * > 0. */
struct linear_prior {
	const double *mean, *sd;
	int split;
	double scale_sd;
};
/* Begins, or begins again. O(d^2). */
void linear_begin(struct linear_model*, const struct linear_prior*);
/* Begins a new group, whose offset is unknown. O(d). */
void linear_group(struct linear_model*);
/* y was observed at `bits` with noise variance `variance` (> 0); the group's offset has the share `share` (1:
 * all) in it. in_group: in the present group; otherwise in a group of its own, whose offset counts as noise.
 * Non-finite arguments are ignored. O(d^2). */
void linear_add(struct linear_model*, const uint64_t* bits, double y, double variance, double share,
                bool in_group);
/* Posterior mean of the value without noise and offset. O(set bits). */
double linear_mean(const struct linear_model*, const uint64_t* bits);
double linear_offset(const struct linear_model*); /* posterior mean of the present group's */
/* out (dims): the posterior mean of the weights. */
void linear_weights(const struct linear_model*, double* out);
/* out (dims): weights drawn from the posterior (Thompson sampling), `scale` times as far from its mean.
 * O(d^3). */
void linear_draw(struct linear_model*, double scale, double* out);

#endif
