/* Calls on a backend that must not fail: an error ends the test with its message. And whether tests on a GPU
 * can run. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernels/backend.h"

/* cpu_open or cuda_open. */
typedef struct backend* backend_opener(const struct weight_table*, const struct backend_options*,
                                       struct error*);

static inline struct backend* must_open(backend_opener* open, const struct weight_table* weights,
                                        const struct backend_options* options) {
	struct error error = {""};
	struct backend* b = open(weights, options, &error);
	if (!b)
		fail_msg("%s", error.message);
	return b;
}

static inline struct cache* must_open_cache(struct backend* b, int context, enum dtype type) {
	struct error error = {""};
	struct cache* c = b->cache_open(b, context, type, &error);
	if (!c)
		fail_msg("%s", error.message);
	return c;
}

static inline void must_run(struct backend* b, const struct pass* pass) {
	struct error error = {""};
	if (!b->run(b, pass, &error))
		fail_msg("%s", error.message);
}

/* False where no GPU can be used, once it has said why. A test program then returns 77, which skips it. */
static inline bool gpu_is_here(void) {
	struct error error = {""};
	if (cuda_available(&error))
		return true;
	printf("skipped: %s\n", error.message);
	return false;
}
