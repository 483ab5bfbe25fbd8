/* Logistic regression: weights and a bias that tell 1 from 0 by a vector, with a ridge.
 *
 * Minimises mean(log(1 + exp(-s·(w·x + b)))) + ridge/2·|w|², s = ±1, over features scaled to unit variance,
 * with GSL's BFGS from where the weights stand. */
#ifndef SWIFTLET_CORE_METHODS_LOGISTIC_H
#define SWIFTLET_CORE_METHODS_LOGISTIC_H

#include <stdbool.h>
#include <stdint.h>

/* x (n, dims) row by row; y (n) 0 or 1; weight (dims) and *bias: start and result. At most `steps` of the
 * minimiser. False when there is no memory or nothing to learn (n < 2, or all y alike): all stays as it was.
 */
bool logistic_fit(const float* x, const uint8_t* y, int n, int dims, double ridge, int steps, float* weight,
                  float* bias);
/* 1 / (1 + exp(-(w·x + b))) */
double logistic_chance(const float* weight, float bias, const float* x, int dims);

#endif
