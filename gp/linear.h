/* Bayesian linear regression over bit vectors, one observation at a time.
 *
 * y = mean + share·offset + sum of weight[i] over the bits that are set + noise: the weight-space view of a
 * Gaussian process with a linear kernel. Taking an observation in costs O(d^2) and no factorisation, so it
 * can be done where a Gaussian process would be too slow. `offset` belongs to the group of observations
 * being made (one evaluation set) and is forgotten when the next group begins. Beside the posterior mean the
 * model keeps a fixed number of draws from the posterior, moved along with every observation (ensemble
 * sampling, Lu & Van Roy 2017, Eq. 3: each member regresses on its own perturbed observations), for
 * Thompson sampling. Nothing is allocated after linear_open. Not locked. */
#ifndef SWIFTLET_GP_LINEAR_H
#define SWIFTLET_GP_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

struct linear_options {
	int dims;             /* bits, 1..1024; vectors are (dims + 63) / 64 words */
	int members;          /* draws kept, >= 0 */
	double mean, mean_sd; /* prior of the constant */
	double weight_sd;     /* prior of each weight: normal about zero */
	double offset_sd;     /* of each group's offset about zero */
	uint64_t seed;        /* of the draws */
};

struct linear_model;
/* NULL when an option is out of range or there is no memory. Bytes: 8·((dims + 2)^2 + members·(dims + 2)). */
struct linear_model* linear_open(const struct linear_options*);
void linear_close(struct linear_model*);

/* What a prior knows up to a common factor: weight[i] is mean[i]·(1 + scale_sd·g) + sd[i]·n, g and n standard
 * normal, g shared by the weights under `split`; those from there on have none. mean, sd (dims), sd > 0. */
struct linear_prior {
	const double *mean, *sd;
	int split;
	double scale_sd;
};
/* Begins again from a prior that tells the weights apart. O(d^2 + d·members). */
void linear_begin(struct linear_model*, const struct linear_prior*);
/* A new group: its offset is drawn afresh. O(d). */
void linear_group(struct linear_model*);
/* y observed at `bits` with noise variance `variance` (> 0), in which the group's offset has the share
 * `share` (1: all of it). in_group: in the present group; else in one of its own, whose offset counts as
 * noise. Non-finite arguments are ignored. O(d^2). */
void linear_add(struct linear_model*, const uint64_t* bits, double y, double variance, double share,
                bool in_group);
/* Posterior mean of the noiseless value without any offset. O(set bits). */
double linear_mean(const struct linear_model*, const uint64_t* bits);
double linear_offset(const struct linear_model*); /* posterior mean of the present group's */
/* out (dims): the posterior mean of the weights. */
void linear_weights(const struct linear_model*, double* out);
/* out (dims): mean + scale·(draw - mean) for one of the draws, 0 <= member < members; returns the same of
 * the constant. */
double linear_draw(const struct linear_model*, int member, double scale, double* out);

#endif
