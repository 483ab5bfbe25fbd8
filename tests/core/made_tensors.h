/* A table of tensors as a folder's files would name them, for tests of what is made of packed weights. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/repack.h"

struct made {
	struct tensor_table table;
	struct kept kept;
};

static inline void add(struct made* m, const char* name, const char* type, const void* data, size_t bytes,
                       int n_dims, const int64_t* dim) {
	struct named_tensor t = {.file = "x.safetensors", .n_dims = n_dims, .data = data, .bytes = bytes};
	snprintf(t.type_name, sizeof t.type_name, "%s", type);
	t.supported = strcmp(type, "F32") == 0;
	memcpy(t.dim, dim, (size_t)n_dims * sizeof *dim);
	assert_true(tensor_table_add(&m->table, &t, name, strlen(name)));
}

#define ADD(m, name, type, data, ...)                                                                        \
	add(m, name, type, data, sizeof(data), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),        \
	    (int64_t[]){__VA_ARGS__})

static inline void drop(struct made* m) {
	tensor_table_free(&m->table);
	kept_free(&m->kept);
	*m = (struct made){0};
}
