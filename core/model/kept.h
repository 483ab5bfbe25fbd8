/* Memory of tensors that were made anew when a model was opened. */
#ifndef SWIFTLET_CORE_MODEL_KEPT_H
#define SWIFTLET_CORE_MODEL_KEPT_H

#include <stddef.h>

struct kept {
	void** memory; /* (n) */
	size_t n;
};

/* Uninitialised bytes that live until kept_free, or NULL: out of memory. */
void* kept_new(struct kept*, size_t bytes);
void kept_free(struct kept*);

#endif
