/* Two coefficients by weighted least squares that forgets; calibration.h says of what. */
#include "optimizer/calibration.h"

#include <math.h>

static const double keep = 1 - 1.0 / 256; /* of what was seen, per score */
static const double most = 4;             /* the largest weight: what was measured on the weakest model */
static const double prior_variance = 0.5;

void calibration_open(struct calibration* c, double b1, double b2) {
	const double weight = 1 / prior_variance;
	*c = (struct calibration){
	    .aa = weight, .bb = weight, .ay = weight * b1, .by = weight * b2, .prior = {b1, b2}, .misfit = 2};
}

/* Misses do not grow with less distance: a coefficient that comes out negative is 0. */
static void solve(const struct calibration* c, double* b1, double* b2) {
	const double determinant = c->aa * c->bb - c->ab * c->ab;
	*b1 = (c->ay * c->bb - c->by * c->ab) / determinant;
	*b2 = (c->by * c->aa - c->ay * c->ab) / determinant;
	if (*b1 < 0) {
		*b1 = 0;
		*b2 = fmax(0, c->by / c->bb);
	} else if (*b2 < 0) {
		*b2 = 0;
		*b1 = fmax(0, c->ay / c->aa);
	}
}

double calibration_matchness(const struct calibration* c, double distance) {
	double b1, b2;
	solve(c, &b1, &b2);
	return fmax(0, 1 - b1 * sqrt(distance) - b2 * distance);
}

double calibration_weight(const struct calibration* c) { return fmin(most, 1 / fmax(c->misfit - 1, 1e-3)); }

void calibration_see(struct calibration* c, double distance, double matchness, double variance) {
	const double off = matchness - calibration_matchness(c, distance);
	c->misfit += (fmin(off * off / variance, 16) - c->misfit) / 48;
	const double weight = 1 / variance, a = sqrt(distance), y = 1 - matchness;
	const double ridge = (1 - keep) / prior_variance; /* the prior does not fade */
	c->aa = keep * c->aa + ridge + weight * a * a;
	c->ab = keep * c->ab + weight * a * distance;
	c->bb = keep * c->bb + ridge + weight * distance * distance;
	c->ay = keep * c->ay + ridge * c->prior[0] + weight * a * y;
	c->by = keep * c->by + ridge * c->prior[1] + weight * distance * y;
}
