/* GGUF: metadata and tensors in one little-endian file, versions 2 and 3.
 *
 *   "GGUF" │ u32 version │ u64 tensors │ u64 values
 *   │ values × (key, u32 type, value)
 *   │ tensors × (name, u32 dims, u64 dim[dims] innermost first, u32 type, u64 offset)
 *   │ padding to general.alignment │ tensor data, offsets counted from here
 *
 * A string is a u64 length and its bytes; an array a u32 element type, a u64 count and its elements. Only
 * tensor names are copied: values and tensors point into the file's bytes. */
#pragma once

#include "core/files/tensor_table.h"

enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_TYPES
};

struct gguf_value {
	const char* key; /* (key_size) not NUL-terminated */
	size_t key_size;
	enum gguf_type type, element; /* element: of an array */
	uint64_t n;                   /* elements; 1 for all but arrays */
	const uint8_t* data;          /* the first element; for a string, its length field */
};

struct gguf {
	const char* file;         /* for messages; the caller's */
	struct gguf_value* value; /* (n) sorted by key */
	size_t n;
};

/* Reads everything but the tensors' data, and checks every length. Adds the tensors to the table. `data` and
 * `file` must outlive both. False with the error set; call gguf_free in both cases. */
bool gguf_read(struct gguf*, struct tensor_table*, const uint8_t* data, size_t size, const char* file,
               struct error*);
void gguf_free(struct gguf*);

/* NULL when there is none. */
const struct gguf_value* gguf_find(const struct gguf*, const char* key);

/* Each reads a value into *out. Without a value *out stays, and the result is true. False with the error set
 * for another type or a value out of range. An array whose elements are all equal counts as one number: some
 * files store one number a block. */
bool gguf_int(const struct gguf*, const char* key, int64_t low, int64_t high, int64_t* out, struct error*);
bool gguf_float(const struct gguf*, const char* key, double low, double high, float* out, struct error*);
bool gguf_bool(const struct gguf*, const char* key, bool* out, struct error*);
/* Bytes within the file, not NUL-terminated. */
bool gguf_string(const struct gguf*, const char* key, const char** out, size_t* size, struct error*);

/* Arrays: without one *n is 0 and *out NULL; else *out is malloc'd. */
bool gguf_strings(const struct gguf*, const char* key, const char*** out, size_t** size, int* n,
                  struct error*);
bool gguf_floats(const struct gguf*, const char* key, float** out, int* n, struct error*);
bool gguf_ints(const struct gguf*, const char* key, int32_t** out, int* n, struct error*);
