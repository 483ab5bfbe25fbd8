/* Logistic regression with a ridge: weights and a bias that separate vectors labelled 1 from those labelled
 * 0.
 *
 * Minimises mean(log(1 + exp(-s·(w·x + b)))) + ridge/2·|w|², s = ±1, over features scaled to unit variance,
 * with GSL's BFGS from the present weights. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* x (n, dims) row by row; y (n) 0 or 1; weight (dims) and *bias: start and result. Takes at most `steps` of
 * the minimiser. False, with nothing changed, when there is no memory or nothing to learn (n < 2, or all y
 * equal). */
bool logistic_fit(const float* x, const uint8_t* y, int n, int dims, double ridge, int steps, float* weight,
                  float* bias);
/* 1 / (1 + exp(-(w·x + b))) */
double logistic_chance(const float* weight, float bias, const float* x, int dims);
