/* The layout of a head's keys in a page: by dimension, so that a vector holds one dimension of neighbouring
 * positions, and the products of a query with them need no sums across its lanes.
 *
 * F16 and F32: (head_dim, PAGE_SLOTS) elements. Q8_0: (head_dim / 32, PAGE_SLOTS) scales in half precision,
 * then (head_dim, PAGE_SLOTS) codes. This takes as many bytes as rows stored one after another, as values
 * are. */
#pragma once

#include <string.h>

#include "kernels/backend.h"
#include "kernels/pages.h"

enum { KEY_BLOCK = 32, KEY_SCALE_BYTES = 2 }; /* of Q8_0 */

/* Bytes of an element, or of a code. */
static inline size_t key_width(enum dtype type) { return type == DTYPE_F32 ? 4 : type == DTYPE_F16 ? 2 : 1; }

/* Bytes of the scales, which stand before the codes. */
static inline size_t key_scales(enum dtype type, int head_dim) {
	return type == DTYPE_Q8_0 ? (size_t)(head_dim / KEY_BLOCK) * PAGE_SLOTS * KEY_SCALE_BYTES : 0;
}

/* The place of a slot's element, or code, in a page's keys of a head. */
static inline size_t key_at(enum dtype type, int head_dim, int slot, int dimension) {
	return key_scales(type, head_dim) + ((size_t)dimension * PAGE_SLOTS + (size_t)slot) * key_width(type);
}

/* The place of the scale of a block of dimensions. */
static inline size_t key_scale_at(int slot, int block) {
	return ((size_t)block * PAGE_SLOTS + (size_t)slot) * KEY_SCALE_BYTES;
}

/* A stored row of head_dim elements is put into a slot of a page's keys. */
static inline void key_put(enum dtype type, unsigned char* keys, int slot, const void* row, int head_dim) {
	const unsigned char* from = row;
	const size_t width = key_width(type);
	for (int d = 0; d < head_dim; d++, from += width) {
		if (type == DTYPE_Q8_0 && d % KEY_BLOCK == 0) {
			memcpy(keys + key_scale_at(slot, d / KEY_BLOCK), from, KEY_SCALE_BYTES);
			from += KEY_SCALE_BYTES;
		}
		memcpy(keys + key_at(type, head_dim, slot, d), from, width);
	}
}

/* And taken out of it. */
static inline void key_get(enum dtype type, const unsigned char* keys, int slot, void* row, int head_dim) {
	unsigned char* to = row;
	const size_t width = key_width(type);
	for (int d = 0; d < head_dim; d++, to += width) {
		if (type == DTYPE_Q8_0 && d % KEY_BLOCK == 0) {
			memcpy(to, keys + key_scale_at(slot, d / KEY_BLOCK), KEY_SCALE_BYTES);
			to += KEY_SCALE_BYTES;
		}
		memcpy(to, keys + key_at(type, head_dim, slot, d), width);
	}
}

/* From a slot of one page to a slot of another, or of the same one. */
static inline void key_copy(enum dtype type, unsigned char* to, int to_slot, const unsigned char* from,
                            int from_slot, int head_dim) {
	const size_t width = key_width(type);
	for (int b = 0; type == DTYPE_Q8_0 && b < head_dim / KEY_BLOCK; b++)
		memcpy(to + key_scale_at(to_slot, b), from + key_scale_at(from_slot, b), KEY_SCALE_BYTES);
	for (int d = 0; d < head_dim; d++)
		memcpy(to + key_at(type, head_dim, to_slot, d), from + key_at(type, head_dim, from_slot, d), width);
}
