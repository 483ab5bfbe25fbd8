/* What the distance between two hidden states says of matchness.
 *
 * A window's matchness is a count of yes and no. How far the hidden states that the draft model ends with
 * are from the full model's tells the same more finely: on the models at hand one window's distance is worth
 * four windows of hits and more (tools/bench.md). CLaSp (Chen et al. 2025) chooses layers by it alone; here
 * it never replaces hits, which decide, but sharpens what is learned from them. The share of misses is taken
 * to be b1·sqrt(d) + b2·d: nothing is missed at d = 0, and near it misses grow with the number of wrong
 * sub-layers or with its root, as the model has it. Both are learned from the scores themselves, and so is
 * how well that fits. */
#ifndef SWIFTLET_OPTIMIZER_CALIBRATION_H
#define SWIFTLET_OPTIMIZER_CALIBRATION_H

struct calibration {
	double aa, ab, bb, ay, by; /* normal equations in sqrt(d) and d, prior included */
	double prior[2];           /* b1, b2 before anything was seen */
	double misfit;             /* squared error of a prediction over the variance of hits; 1: perfect */
};

/* b1 and b2 to begin with, worth a score or two. */
void calibration_open(struct calibration*, double b1, double b2);
/* The matchness to expect at a distance (>= 0), in [0, 1]. */
double calibration_matchness(const struct calibration*, double distance);
/* How many times a distance is worth the hits of the same rows: 0 and more. */
double calibration_weight(const struct calibration*);
/* Learns from one score: its matchness, the variance of that, its distance. */
void calibration_see(struct calibration*, double distance, double matchness, double variance);

#endif
