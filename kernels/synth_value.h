/* The elements of synthetic tensors, as inline functions for C and for CUDA C++.
 *
 * An element is a pure function of (tensor, row, column). All draws are integers, and one rounded
 * multiplication turns them into a float: nothing that a compiler could fuse or reorder, so every
 * machine makes the same bits. A draw is the sum of the four bytes of a hash, less its mean: close to a
 * normal variate (Irwin-Hall of four), within 3.46 standard deviations. */
#pragma once

#include <stdbool.h>

#include "kernels/anywhere.h"
#include "kernels/synth.h"

enum {
	SYNTH_CLUSTER = 16, /* tokens a cluster */
	SYNTH_SPREAD = 510  /* a draw lies in [-SYNTH_SPREAD, SYNTH_SPREAD] */
};
/* Standard deviation of a draw: sqrt(4·(256² - 1)/12). */
#define SYNTH_DEVIATION 147.80053

struct synth_row_key { /* one row's stream of draws */
	uint32_t first, second;
};

/* A bijection of 64 bits that mixes well (the finalizer of SplitMix64, Steele et al. 2014). */
ANYWHERE uint64_t synth_mix(uint64_t x) {
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

ANYWHERE struct synth_row_key synth_row_key(uint64_t seed, uint64_t row) {
	const uint64_t mixed = synth_mix(synth_mix(seed) + row);
	struct synth_row_key key;
	key.first = (uint32_t)mixed;
	key.second = (uint32_t)(mixed >> 32);
	return key;
}

/* The draw at a column of a row, in [-SYNTH_SPREAD, SYNTH_SPREAD]. 32-bit arithmetic, so that it
 * vectorises; the second key keeps rows with near first keys from being shifts of each other. */
ANYWHERE int32_t synth_draw(struct synth_row_key key, uint32_t column) {
	uint32_t x = column * 0x9e3779b1u + key.first;
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x += key.second;
	x *= 0x846ca68bu;
	x ^= x >> 16;
	x = (x & 0x00ff00ffu) + ((x >> 8) & 0x00ff00ffu);
	return (int32_t)((x & 0xffffu) + (x >> 16)) - SYNTH_SPREAD;
}

/* ---- halves and clusters ------------------------------------------------------------------ */

/* With two halves the vocabulary alternates between them every 128 ids: ASCII bytes belong to the first
 * half and all other bytes to the second, so that either can be reached by text. */
ANYWHERE int synth_token_half(uint32_t token, int halves) {
	return halves == 2 ? (int)((token >> 7) & 1u) : 0;
}

/* The cluster of a token, counted within its half. */
ANYWHERE uint32_t synth_token_cluster(uint32_t token, int halves) {
	const uint32_t within = halves == 2 ? ((token >> 8) << 7) | (token & 127u) : token;
	return within / SYNTH_CLUSTER;
}

/* A cluster's position on its half's cycle: a random permutation of [0, clusters), made by walking the
 * cycles of a bijection of the next power of two. The cluster at position p is followed by the one at
 * position p + 1, the last by the first. */
ANYWHERE uint32_t synth_cluster_position(uint64_t shared, uint32_t cluster, uint32_t clusters) {
	uint32_t bits = 1;
	while ((1u << bits) < clusters)
		bits++;
	const uint32_t all = (1u << bits) - 1u, fold = (bits + 1u) / 2u;
	const uint64_t key = synth_mix(shared);
	const uint32_t a = (uint32_t)key | 1u, b = (uint32_t)(key >> 32) | 1u;
	uint32_t x = cluster;
	do {
		for (int round = 0; round < 3; round++) {
			x = (x * a + (uint32_t)(key >> 17)) & all;
			x ^= x >> fold;
			x = (x * b) & all;
			x ^= x >> fold;
		}
	} while (x >= clusters);
	return x;
}

/* ---- elements ----------------------------------------------------------------------------- */

/* Everything about a row that its elements share. */
struct synth_row {
	struct synth_row_key own, common;
	float scale;
	int64_t begin, end; /* columns that are not zero */
};

ANYWHERE struct synth_row synth_row_of(const struct synth_tensor* t, int64_t row, int64_t rows,
                                       int64_t cols) {
	struct synth_row r;
	const bool tokens = t->kind == SYNTH_EMBEDDING || t->kind == SYNTH_HEAD;
	int half = 0;
	if (t->halves == 2)
		half = tokens ? synth_token_half((uint32_t)row, 2) : row >= rows / 2;
	r.own = synth_row_key(t->seed, (uint64_t)row);
	r.common = r.own;
	if (tokens) {
		const uint32_t clusters = (uint32_t)t->clusters;
		uint32_t position = synth_cluster_position(t->shared + (uint64_t)half,
		                                           synth_token_cluster((uint32_t)row, t->halves), clusters);
		if (t->kind == SYNTH_HEAD)
			position = (position + clusters - 1u) % clusters;
		r.common = synth_row_key(t->shared + 2u + (uint64_t)half, position);
	}
	r.scale = half == 1 ? t->scale_second : t->scale;
	r.begin = t->halves == 2 && half == 1 ? cols / 2 : 0;
	r.end = t->halves == 2 && half == 0 ? cols / 2 : cols;
	return r;
}

/* The element at a column of a row made by synth_row_of. */
ANYWHERE float synth_element(const struct synth_tensor* t, const struct synth_row* r, int64_t column) {
	if (t->kind == SYNTH_CONSTANT)
		return t->scale;
	if (column < r->begin || column >= r->end)
		return 0.0f;
	int32_t draw = t->own * synth_draw(r->own, (uint32_t)column);
	if (t->common != 0)
		draw += t->common * synth_draw(r->common, (uint32_t)column);
	return (float)draw * r->scale;
}
