/* The plain product with weights by input channel, with which every fast one is compared. */
#include <math.h>
#include <string.h>

#include "kernels/column_threshold.h"
#include "kernels/cpu/columns.h"

float reference_column_threshold(const struct column_map* map, const float* x, float share) {
	return find_threshold(map, x, share);
}

int reference_column_keep(const struct column_map* map, struct column_range range, const float* x,
                          float threshold, const struct column_list* to) {
	int n = 0;
	for (int j = range.begin; j < range.end; j++) {
		to->channel[n] = (uint16_t)j; /* written in any case: no branch to guess */
		to->value[n] = x[j];
		to->size[n] = fabsf(x[j]) * column_scale(map->peak[j]);
		n += fabsf(x[j]) * column_norm(map->norm[j]) > threshold;
	}
	return n;
}

/* The nibble of output o of a line */
static int code_at(const uint8_t* line, int o) {
	const int k = o / 32, l = o % 16 / 4, i = o % 4;
	const int byte = line[16 * l + 4 * k + i];
	return o % 32 < 16 ? byte & 15 : byte >> 4;
}

/* Output o of a line; `runs` are those of its tile, of so many lines. */
static float output_of(const uint8_t* runs, int lines, int64_t line, const struct column_list* list, int o) {
	float sum = 0;
	for (int from = 0; from < list->n; from += COLUMN_GROUP) {
		int32_t dot = 0; /* of (16·code - 120) and the activation */
		for (int i = from; i < list->n && i < from + COLUMN_GROUP; i++) {
			const uint8_t* run = runs + list->channel[i] * column_run(lines);
			const float scale = column_scale(run[line * COLUMN_SCALES + o / 32]);
			const int q = (int)nearbyintf(list->value[i] * scale);
			dot += (16 * code_at(run + column_run_scales(lines) + line * COLUMN_LINE, o) - 120) * q;
		}
		sum += (float)dot * (list->step[from / COLUMN_GROUP] / 16);
	}
	return sum;
}

void reference_column_product(float* out, size_t out_stride, const struct column_map* map, int64_t tile,
                              struct column_span span, const struct column_list* list, int n) {
	const struct column_span all = column_tile(map->outputs, tile);
	const uint8_t* runs = map->runs + column_tile_offset(map->outputs, map->channels, tile);
	for (int i = 0; i < n; i++)
		for (int o = 0; o < span.lines * COLUMN_OUTPUTS; o++)
			out[(size_t)i * out_stride + (size_t)o] = output_of(
			    runs, all.lines, span.line - all.line + o / COLUMN_OUTPUTS, &list[i], o % COLUMN_OUTPUTS);
}
