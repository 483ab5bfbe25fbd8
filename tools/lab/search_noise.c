/* What optimizer/belief.c takes for known: how damage, hits, windows and sums stray, measured on a model. */
#include "tools/lab/search_noise.h"

#include <math.h>
#include <stdio.h>

#include "gp/linear.h"
#include "gp/random.h"
#include "optimizer/vector.h"

enum { MASKS = 64, WINDOWS = 12, SINGLE_WINDOWS = 3 };

struct scores {
	struct vector mask[MASKS];
	double distance[MASKS][WINDOWS], hits[MASKS][WINDOWS], mean[MASKS], factor[WINDOWS];
	int windows, dims;
};

static double square(double x) { return x * x; }

/* The least influential in an order that noise has shaken, 0.1 to 0.7 of all. */
static struct vector draw_mask(const double* influence, int dims, struct gp_random* random) {
	struct vector v = {{0}};
	double key[MAX_DIMS];
	const int size = (int)((0.1 + 0.6 * gp_uniform(random)) * dims);
	for (int i = 0; i < dims; i++)
		key[i] = influence[i] * exp(1.5 * (gp_uniform(random) + gp_uniform(random) - 1));
	for (int n = 0; n < size; n++) {
		int least = -1;
		for (int i = 0; i < dims; i++)
			if (!vector_has(&v, i) && (least < 0 || key[i] < key[least]))
				least = i;
		vector_set(&v, least, true);
	}
	return v;
}

static void score_all(struct lab* lab, struct scores* s) {
	struct gp_random random = {.state = 1};
	s->dims = 2 * lab->backend->weights->shape.n_blocks - 4;
	s->windows = lab->n_windows < WINDOWS ? lab->n_windows : WINDOWS;
	for (int m = 0; m < MASKS; m++) {
		s->mask[m] = draw_mask(lab->influence + 2, s->dims, &random);
		const struct mask mask = mask_of(&s->mask[m], &(struct copied){.head = false}, s->dims);
		s->mean[m] = 0;
		for (int i = 0; i < s->windows; i++) {
			const int w = i * lab->n_windows / s->windows, rows = lab->window[w].size;
			s->hits[m][i] = (double)lab_score(lab, &mask, w, rows, &s->distance[m][i]) / rows;
			s->mean[m] += s->distance[m][i] / s->windows;
		}
	}
}

/* Of a window's factor of damage, and of a score about its mask's mean times that. */
static void print_windows(struct scores* s) {
	double mean = 0, spread = 0, stray = 0;
	for (int i = 0; i < s->windows; i++) {
		s->factor[i] = 0;
		for (int m = 0; m < MASKS; m++)
			s->factor[i] += s->distance[m][i] / s->mean[m] / MASKS;
		mean += s->factor[i] / s->windows;
	}
	for (int i = 0; i < s->windows; i++) {
		spread += square(s->factor[i] - mean) / (s->windows - 1);
		for (int m = 0; m < MASKS; m++)
			stray += square(s->distance[m][i] / (s->mean[m] * s->factor[i]) - 1) / (MASKS * s->windows);
	}
	printf("window_sd %.3f  score_sd %.3f", sqrt(spread), sqrt(stray));
}

/* Of a mask's damage about the sum that all other masks' scores lead to. */
static void print_sum(const struct scores* s, const double* influence, double scale) {
	double prior[MAX_DIMS], sd[MAX_DIMS], error = 0, mean = 0;
	for (int i = 0; i < s->dims; i++)
		mean += (prior[i] = scale * influence[i]) / s->dims;
	for (int i = 0; i < s->dims; i++)
		sd[i] = 0.5 * prior[i] + 0.1 * mean;
	struct linear_model* l =
	    linear_open(&(struct linear_options){.dims = s->dims, .mean_sd = 1e-3, .weight_sd = 1});
	for (int out = 0; l && out < MASKS; out++) {
		linear_begin(l, &(struct linear_prior){.mean = prior, .sd = sd, .split = s->dims, .scale_sd = {0.3}});
		for (int m = 0; m < MASKS; m++)
			if (m != out)
				linear_add(l, s->mask[m].word, s->mean[m], square(0.1 * s->mean[m]), 0, false);
		error += square(linear_mean(l, s->mask[out].word) / s->mean[out] - 1) / MASKS;
	}
	linear_close(l);
	printf("  sum_sd %.3f", sqrt(error));
}

/* Misses are b1·sqrt(d) + b2·d: of a mask's matchness about that, and of a window's hits for all masks. */
static void print_link(const struct scores* s) {
	double aa = 0, ab = 0, bb = 0, ay = 0, by = 0, stray = 0, noise = 0, ease = 0;
	for (int m = 0; m < MASKS; m++)
		for (int i = 0; i < s->windows; i++) {
			const double d = s->distance[m][i], a = sqrt(d), y = 1 - s->hits[m][i];
			aa += a * a, ab += a * d, bb += d * d, ay += a * y, by += d * y;
		}
	const double determinant = aa * bb - ab * ab;
	const double b1 = (ay * bb - by * ab) / determinant, b2 = (by * aa - ay * ab) / determinant;
	double window[WINDOWS] = {0};
	for (int m = 0; m < MASKS; m++) {
		double off = 0;
		for (int i = 0; i < s->windows; i++) {
			const double d = s->distance[m][i], here = s->hits[m][i] - (1 - b1 * sqrt(d) - b2 * d);
			off += here / s->windows;
			window[i] += here / MASKS;
			noise += s->hits[m][i] * (1 - s->hits[m][i]) / 32 / (s->windows * MASKS);
		}
		stray += square(off) / MASKS;
	}
	for (int i = 0; i < s->windows; i++)
		ease += square(window[i]) / (s->windows - 1);
	printf("  link_sd %.3f  ease_sd %.3f  b1 %.2f  b2 %.2f\n", sqrt(fmax(0, stray - noise / s->windows)),
	       sqrt(ease), b1, b2);
}

/* Single sub-layers' damage over influence: its mean, and its spread weighted as it counts in a sum. */
static double print_single(struct lab* lab, int dims) {
	double damage[MAX_DIMS] = {0}, all = 0, influence = 0, stray = 0, weight = 0;
	for (int i = 0; i < dims; i++) {
		struct mask one = {.word = {0}};
		mask_set(&one, i + 2, true);
		for (int k = 0; k < SINGLE_WINDOWS; k++) {
			const int w = k * lab->n_windows / SINGLE_WINDOWS;
			double distance;
			lab_score(lab, &one, w, lab->window[w].size, &distance);
			damage[i] += distance / SINGLE_WINDOWS;
		}
		all += damage[i];
		influence += lab->influence[i + 2];
	}
	const double scale = all / influence;
	for (int i = 0; i < dims; i++) {
		const double expected = scale * lab->influence[i + 2];
		stray += square(damage[i] - expected);
		weight += square(expected);
	}
	printf("scale %.2f  own_sd %.2f  ", scale, sqrt(stray / weight));
	return scale;
}

void search_noise(struct lab* lab) {
	static struct scores scores;
	score_all(lab, &scores);
	const double scale = print_single(lab, scores.dims);
	print_windows(&scores);
	print_sum(&scores, lab->influence + 2, scale);
	print_link(&scores);
}
