/* Hugging Face folders of the files tests/core/golden/configs: their weights are made here, by the same rule
 * as in tools/oracle/configs.py. Included once by a test: it has definitions. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/files/json.h"

static cJSON* part(const cJSON* json, const char* field) {
	cJSON* found = cJSON_GetObjectItemCaseSensitive(json, field);
	if (!found)
		fail_msg("%s is missing", field);
	return found;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* A checkpoint of one file: names and places first, then values. */
struct writer {
	FILE* out;
	uint64_t at;
	bool names; /* the header's turn */
	bool first;
};

/* FNV-1a */
static uint64_t hash(const char* text) {
	uint64_t h = 14695981039346656037u;
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 1099511628211u;
	return h;
}

/* splitmix64 (Steele et al. 2014): uniform in [-1/2, 1/2). */
static double uniform(uint64_t seed, uint64_t i) {
	uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return (double)(z >> 40) / 16777216.0 - 0.5;
}

/* integers: i·scale + offset modulo n; identity: 1 on a matrix' diagonal, else 0 */
static void put_tensor(struct writer* w, const char* name, const cJSON* entry) {
	const cJSON *dim, *shape = part(entry, "shape");
	const bool integers = cJSON_IsTrue(json_field(entry, "integers"));
	const double scale = part(entry, "scale")->valuedouble, offset = part(entry, "offset")->valuedouble;
	const bool identity = cJSON_IsTrue(json_field(entry, "identity"));
	uint64_t n = 1, columns = 1;
	cJSON_ArrayForEach (dim, shape)
		n *= columns = (uint64_t)dim->valuedouble;
	if (w->names) {
		char* text = cJSON_PrintUnformatted(shape);
		const uint64_t end = w->at + (integers ? 8 : 4) * n;
		fprintf(w->out, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%llu,%llu]}",
		        w->first ? "" : ",", name, integers ? "I64" : "F32", text, (unsigned long long)w->at,
		        (unsigned long long)end);
		w->at = end;
		w->first = false;
		free(text);
		return;
	}
	const uint64_t seed = hash(name);
	for (uint64_t i = 0; i < n; i++) {
		const float x =
		    identity ? (float)(i / columns == i % columns) : (float)(offset + scale * uniform(seed, i));
		const int64_t whole = (int64_t)((i * (uint64_t)scale + (uint64_t)offset) % n);
		fwrite(integers ? (const void*)&whole : &x, integers ? sizeof whole : sizeof x, 1, w->out);
	}
}

/* A name's stars are numbers, counted from 0 to the "of" of each. */
static void put_all(struct writer* w, const char* name, const cJSON* of, const cJSON* entry) {
	const char* star = strchr(name, '*');
	if (!star) {
		put_tensor(w, name, entry);
		return;
	}
	assert_non_null(of);
	for (int i = 0; i < (int)of->valuedouble; i++) {
		char one[256];
		snprintf(one, sizeof one, "%.*s%d%s", (int)(star - name), name, i, star + 1);
		put_all(w, one, of->next, entry);
	}
}

static void put_pass(struct writer* w, const cJSON* tensors) {
	const cJSON* entry;
	cJSON_ArrayForEach (entry, tensors)
		put_all(w, part(entry, "name")->valuestring, part(entry, "of")->child, entry);
}

static void write_weights(const cJSON* tensors, const char* path) {
	struct writer w = {.out = fopen(path, "wb+"), .names = true, .first = true};
	assert_non_null(w.out);
	uint8_t length[8] = {0};
	fwrite(length, 1, sizeof length, w.out);
	fputc('{', w.out);
	put_pass(&w, tensors);
	fputc('}', w.out);
	const uint64_t header = (uint64_t)ftell(w.out) - sizeof length;
	w.names = false;
	put_pass(&w, tensors);
	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(header >> 8 * i);
	rewind(w.out);
	fwrite(length, 1, sizeof length, w.out);
	assert_int_equal(fclose(w.out), 0);
}

/* ---- the folder ------------------------------------------------------------------------------- */

static const char* const made[] = {"config.json", "model.safetensors", "tokenizer.json",
                                   "tokenizer_config.json"};

static void write_folder(const cJSON* json, const char* folder) {
	char path[1200], to[1200];
	snprintf(path, sizeof path, "%s/config.json", folder);
	FILE* out = fopen(path, "w");
	assert_non_null(out);
	char* text = cJSON_Print(part(json, "config"));
	fputs(text, out);
	free(text);
	assert_int_equal(fclose(out), 0);
	snprintf(path, sizeof path, "%s/model.safetensors", folder);
	write_weights(part(json, "tensors"), path);
	for (int i = 2; i < 4; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, made[i]);
		snprintf(to, sizeof to, "%s/tests/core/golden/tokenizer/%s", getenv("SWIFTLET_SOURCE"), made[i]);
		assert_int_equal(symlink(to, path), 0);
	}
}

static void drop_folder(const char* folder) {
	char path[1200];
	for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, made[i]);
		unlink(path);
	}
	rmdir(folder);
}
