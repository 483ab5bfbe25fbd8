/* A small seeded generator (splitmix64), whose draws repeat on every machine. */
#pragma once

#include <math.h>
#include <stdint.h>

struct gp_random {
	uint64_t state; /* any seed */
};

static inline uint64_t gp_random_bits(struct gp_random* r) {
	uint64_t x = r->state += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}
/* Uniform in (0, 1). */
static inline double gp_uniform(struct gp_random* r) {
	return ((double)(gp_random_bits(r) >> 12) + 0.5) * 0x1p-52;
}
/* Uniform in 0..n-1, n >= 1. The bias of the modulus is below n/2^64. */
static inline int gp_below(struct gp_random* r, int n) { return (int)(gp_random_bits(r) % (uint64_t)n); }
/* Standard normal (Box-Muller, one of the pair). */
static inline double gp_normal(struct gp_random* r) {
	const double radius = sqrt(-2 * log(gp_uniform(r)));
	return radius * cos(6.283185307179586 * gp_uniform(r));
}
