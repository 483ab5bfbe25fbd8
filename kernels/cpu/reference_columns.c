/* The plain product with weights by input channel, with which every fast one is compared. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/columns.h"

int reference_column_keep(const struct column_map* map, const float* x, float threshold, uint16_t* channel,
                          float* value) {
	int n = 0;
	for (int j = 0; j < map->channels; j++) {
		channel[n] = (uint16_t)j; /* written in any case: no branch to guess */
		value[n] = x[j];
		n += fabsf(x[j]) * map->norm[j] > threshold;
	}
	return n;
}

/* The nibble of output o of a tile in a channel's line */
static int code_at(const uint8_t* line, int o) {
	const int k = o / 32, l = o % 16 / 4, i = o % 4;
	const int byte = line[16 * l + 4 * k + i];
	return o % 32 < 16 ? byte & 15 : byte >> 4;
}

static float output_of(const struct column_map* map, int64_t tile, const struct column_list* list, int o) {
	const uint8_t* lines = map->codes + (size_t)tile * (size_t)map->channels * COLUMN_LINE;
	const uint8_t* scale = map->scale + (size_t)tile * (size_t)map->channels * COLUMN_SCALES + o / 32;
	float sum = 0;
	for (int from = 0; from < list->n; from += COLUMN_GROUP) {
		int32_t dot = 0; /* of (16·code - 120) and the activation */
		for (int i = from; i < list->n && i < from + COLUMN_GROUP; i++) {
			const int channel = list->channel[i];
			const int q = (int)nearbyintf(list->value[i] * column_scale(scale[channel * COLUMN_SCALES]));
			dot += (16 * code_at(lines + (size_t)map->order[channel] * COLUMN_LINE, o) - 120) * q;
		}
		sum += (float)dot * (list->step[from / COLUMN_GROUP] / 16);
	}
	return sum;
}

void reference_column_product(float* out, size_t out_stride, const struct column_map* map, int64_t tile,
                              const struct column_list* list, int n) {
	for (int i = 0; i < n; i++)
		for (int o = 0; o < COLUMN_OUTPUTS; o++)
			out[(size_t)i * out_stride + (size_t)o] = output_of(map, tile, &list[i], o);
}
