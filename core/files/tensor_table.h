/* The named tensors of a model's files, in any format. They are looked up by name, checked against the shape
 * that the config asks for, and counted, so that none is missing and none is left over. */
#pragma once

#include "kernels/backend.h"

enum {
	TENSOR_DIMS = 8,
	GGUF_DIMS = 4
}; /* a vision model's convolutions have this many, and it is GGUF's limit */

struct named_tensor {
	char* name;         /* owned */
	const char* file;   /* for messages; the mapping's */
	char type_name[16]; /* as the file calls it */
	bool supported;     /* whether `type` states what it is */
	enum dtype type;
	int n_dims;
	int64_t dim[TENSOR_DIMS]; /* outermost first; product checked against bytes */
	const uint8_t* data;      /* (bytes) in the mapping */
	size_t bytes;
	bool used;
};

struct tensor_table {
	struct named_tensor* item; /* (n) sorted by name once sealed */
	size_t n;
};

/* Appends a copy; the name is copied too. False: out of memory. */
bool tensor_table_add(struct tensor_table*, const struct named_tensor*, const char* name, size_t name_size);
/* Sorts by name. False with the error set when a name occurs twice. */
bool tensor_table_seal(struct tensor_table*, struct error*);
void tensor_table_free(struct tensor_table*);

/* Sorts tensors of one file by place. False with the error set when two share bytes. */
bool tensors_apart(struct named_tensor*, size_t n, struct error*);

/* NULL when there is none. */
struct named_tensor* tensor_table_find(const struct tensor_table*, const char* name);
/* Whether some name ends so. */
bool tensor_table_find_ending(const struct tensor_table*, const char* suffix);
/* The tensor as (rows, cols), or as a vector of cols if rows is 1. Marks it used. False with the error set
 * when it is missing, has another shape, or a type without kernels. */
bool tensor_table_take(struct tensor_table*, const char* name, int64_t rows, int64_t cols, struct tensor* out,
                       struct error*);
/* The same for `count` matrices stored as one (count, rows, cols); returned as (count·rows, cols). */
bool tensor_table_take_stack(struct tensor_table*, const char* name, int64_t count, int64_t rows,
                             int64_t cols, struct tensor* out, struct error*);
/* False with the error set when a tensor was never taken and is not on the list of idle ones; the error names
 * the first. */
bool tensor_table_all_used(const struct tensor_table*, bool (*ignored)(const char* name), struct error*);
/* Rows [begin, begin + rows) of a tensor. It gives the parts of a fused projection. */
struct tensor tensor_rows(const struct tensor*, int64_t begin, int64_t rows);
