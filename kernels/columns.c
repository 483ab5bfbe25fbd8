/* Shared by all instruction sets for weights by input channel: the end of a list, and channels' keys. */
#include "kernels/columns.h"

#include <math.h>

#include "kernels/column_round.h"

void column_round(uint8_t* codes, uint8_t* scale, size_t run, float* peak, float* norm2, const float* x,
                  int64_t x_stride, int outputs, int n) {
	round_columns(codes, scale, run, peak, norm2, x, x_stride, outputs, n);
}

enum { LANES = 16 };

/* n is a multiple of LANES, or the list's last values' number; behind those lie sizes of 0. */
static void quantize_group(float* value, const float* size, float* step, int n) {
	float lane[LANES] = {0}, most = 0;
	for (int i = 0; i < n; i += LANES) /* independent ones, since a maximum takes several cycles */
		for (int l = 0; l < LANES; l++)
			lane[l] = size[i + l] > lane[l] ? size[i + l] : lane[l];
	for (int l = 0; l < LANES; l++)
		most = lane[l] > most ? lane[l] : most;
	const float inverse = 127.0f / most;
	const bool usable = inverse < INFINITY && most < INFINITY;
	*step = usable ? most / 127.0f : 0;
	for (int i = 0; i < n; i++)
		value[i] = usable ? value[i] * inverse : 0;
}

void column_finish(struct column_list* list, int n) {
	list->n = (n + 3) / 4 * 4;
	memset(list->size + n, 0, LANES * sizeof *list->size);
	for (int i = n; i < list->n; i++) {
		list->channel[i] = 0;
		list->value[i] = 0;
	}
	for (int i = 0; i < list->n; i += COLUMN_GROUP) {
		const int some = list->n - i < COLUMN_GROUP ? list->n - i : COLUMN_GROUP;
		quantize_group(list->value + i, list->size + i, list->step + i / COLUMN_GROUP, some);
	}
}

void column_keys(uint8_t* peak, uint16_t* norm, const float* largest_scale, const float* norm2, int n) {
	for (int j = 0; j < n; j++) {
		const float whole = sqrtf(norm2[j]);
		uint32_t bits;
		memcpy(&bits, &largest_scale[j], sizeof bits);
		peak[j] = bits ? (uint8_t)((bits - ((uint32_t)COLUMN_LEAST_EXPONENT << 23)) >> 20) : 0;
		memcpy(&bits, &whole, sizeof bits);
		norm[j] = (uint16_t)(bits >> 16);
	}
}
