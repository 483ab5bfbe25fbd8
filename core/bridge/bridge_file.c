/* Bridges in safetensors. */
#include "core/bridge/bridge_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/mapping.h"
#include "core/files/safetensors.h"
#include "kernels/dtype_blocks.h"

static const char format_name[] = "swiftlet-bridge-1";
static const float half_most = 65504;

/* ---- making --------------------------------------------------------------------------------- */

static bool place(struct kept_bridge* kept, int dim, int first, int last, enum dtype type) {
	const size_t weight = (dtype_row_bytes(type, 2 * dim) * (size_t)dim + 63) / 64 * 64;
	const size_t bytes = (weight + (size_t)dim * sizeof(float) + 63) / 64 * 64;
	*kept = (struct kept_bridge){.memory = aligned_alloc(64, bytes)};
	if (!kept->memory)
		return false;
	kept->bridge = (struct bridge){
	    .first = 2 * first,
	    .last = 2 * last + 2,
	    .weight = {.type = type, .rows = dim, .cols = 2 * (int64_t)dim, .data = kept->memory},
	    .bias = (const float*)((unsigned char*)kept->memory + weight),
	};
	return true;
}

static float* bias_of(const struct kept_bridge* kept) {
	const size_t at = (size_t)((const unsigned char*)kept->bridge.bias - (const unsigned char*)kept->memory);
	return (float*)((unsigned char*)kept->memory + at);
}

bool kept_bridge_make(struct kept_bridge* kept, int dim, int first, int last, const float* weight,
                      const float* bias) {
	const size_t n = 2 * (size_t)dim * (size_t)dim;
	bool fits = true;
	for (size_t i = 0; i < n; i++)
		fits = fits && fabsf(weight[i]) <= half_most;
	if (!place(kept, dim, first, last, fits ? DTYPE_F16 : DTYPE_F32))
		return false;
	for (size_t i = 0; i < n && fits; i++)
		((uint16_t*)kept->memory)[i] = half_from_float(weight[i]);
	if (!fits)
		memcpy(kept->memory, weight, n * sizeof *weight);
	memcpy(bias_of(kept), bias, (size_t)dim * sizeof *bias);
	return true;
}

void kept_bridge_free(struct kept_bridge* kept) {
	free(kept->memory);
	*kept = (struct kept_bridge){.memory = NULL};
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool read_block(const uint8_t* data, size_t size, const char* key, const char* name, int most,
                       int* out, struct error* error) {
	char text[24], *end = text;
	const bool found = safetensors_metadata(data, size, key, text, sizeof text);
	const long value = found ? strtol(text, &end, 10) : 0;
	if (!found || end == text || *end || value < 1 || value > most)
		return error_set(error, "%s: \"%s\" is %.20s, expected a block from 1 to %d", name, key,
		                 found ? text : "missing", most);
	*out = (int)value;
	return true;
}

static bool check_model(const uint8_t* data, size_t size, const char* fingerprint, const char* name,
                        struct error* error) {
	char text[80];
	if (!safetensors_metadata(data, size, "format", text, sizeof text) || strcmp(text, format_name) != 0)
		return error_set(error, "%s: \"format\" is not \"%s\": this is no bridge", name, format_name);
	if (!safetensors_metadata(data, size, "fingerprint", text, sizeof text) || strcmp(text, fingerprint) != 0)
		return error_set(error, "%s: the bridge was learned on another model", name);
	return true;
}

static bool all_finite(const struct tensor* t) {
	for (int64_t i = 0; i < t->rows * t->cols; i++) {
		float x;
		dtype_to_float(t->type, (const unsigned char*)t->data + (size_t)i * dtype_block_bytes(t->type), &x,
		               1);
		if (!isfinite(x))
			return false;
	}
	return true;
}

static bool take(struct kept_bridge* kept, struct tensor_table* table, int dim, int first, int last,
                 const char* name, struct error* error) {
	struct tensor weight, bias;
	if (!tensor_table_seal(table, error) ||
	    !tensor_table_take(table, "weight", dim, 2 * (int64_t)dim, &weight, error) ||
	    !tensor_table_take(table, "bias", 1, dim, &bias, error))
		return false;
	if ((weight.type != DTYPE_F16 && weight.type != DTYPE_F32) || bias.type != DTYPE_F32)
		return error_set(error, "%s: weight is %s and bias %s, expected f16 or f32, and f32", name,
		                 dtype_name(weight.type), dtype_name(bias.type));
	if (!all_finite(&weight) || !all_finite(&bias))
		return error_set(error, "%s: a weight is not a finite number", name);
	if (!place(kept, dim, first, last, weight.type))
		return error_set(error, "%s: out of memory", name);
	memcpy(kept->memory, weight.data, (size_t)dim * dtype_row_bytes(weight.type, 2 * dim));
	memcpy(bias_of(kept), bias.data, (size_t)dim * sizeof(float));
	return true;
}

bool bridge_read(struct kept_bridge* kept, const uint8_t* data, size_t size, const struct model_shape* shape,
                 const char* fingerprint, const char* name, struct error* error) {
	struct tensor_table table = {0};
	int first = 0, last = 0;
	const int most = shape->n_blocks - 2;
	*kept = (struct kept_bridge){.memory = NULL};
	bool good = safetensors_read(&table, data, size, name, error) &&
	            check_model(data, size, fingerprint, name, error) &&
	            read_block(data, size, "first", name, most, &first, error) &&
	            read_block(data, size, "last", name, most, &last, error);
	if (good && last < first)
		good = error_set(error, "%s: \"last\" is %d, expected at least \"first\", %d", name, last, first);
	good = good && take(kept, &table, shape->dim, first, last, name, error);
	tensor_table_free(&table);
	return good;
}

bool bridge_file_read(struct kept_bridge* kept, const char* path, const struct model_shape* shape,
                      const char* fingerprint, struct error* error) {
	struct mapping mapping;
	*kept = (struct kept_bridge){.memory = NULL};
	if (!mapping_open(&mapping, path, error))
		return false;
	const bool good = bridge_read(kept, mapping.data, mapping.size, shape, fingerprint, path, error);
	mapping_close(&mapping);
	return good;
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool write_to(FILE* file, const struct bridge* b, const char* fingerprint) {
	const struct tensor* w = &b->weight;
	const size_t bytes = (size_t)w->rows * dtype_row_bytes(w->type, w->cols),
	             bias = (size_t)w->rows * sizeof(float);
	char header[768];
	const int used = snprintf(
	    header, sizeof header,
	    "{\"__metadata__\":{\"format\":\"%s\",\"fingerprint\":\"%.64s\",\"first\":\"%d\",\"last\":"
	    "\"%d\"},\"weight\":{\"dtype\":\"%s\",\"shape\":[%lld,%lld],\"data_offsets\":[0,%zu]},"
	    "\"bias\":{\"dtype\":\"F32\",\"shape\":[%lld],\"data_offsets\":[%zu,%zu]}}",
	    format_name, fingerprint, b->first / 2, b->last / 2 - 1, w->type == DTYPE_F16 ? "F16" : "F32",
	    (long long)w->rows, (long long)w->cols, bytes, (long long)w->rows, bytes, bytes + bias);
	const int length =
	    (used + 7) / 8 * 8; /* spaces up to a whole number of words, as the format's library does */
	uint8_t size[8] = {(uint8_t)length, (uint8_t)(length >> 8)};
	memset(header + used, ' ', (size_t)(length - used));
	return fwrite(size, 1, sizeof size, file) == sizeof size &&
	       fwrite(header, 1, (size_t)length, file) == (size_t)length &&
	       fwrite(w->data, 1, bytes, file) == bytes && fwrite(b->bias, 1, bias, file) == bias;
}

bool bridge_file_write(const char* path, const struct bridge* bridge, const char* fingerprint,
                       struct error* error) {
	char beside[4096];
	if (snprintf(beside, sizeof beside, "%s.new", path) >= (int)sizeof beside)
		return error_set(error, "%.100s…: the path is too long", path);
	FILE* file = fopen(beside, "wb");
	if (!file)
		return error_set(error, "%s: %s", beside, strerror(errno));
	const bool written = write_to(file, bridge, fingerprint);
	if ((fclose(file) == 0 && written && rename(beside, path) == 0))
		return true;
	const int why = errno;
	remove(beside);
	return error_set(error, "%s: %s", path, strerror(why));
}
