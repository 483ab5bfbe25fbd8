/* Bridges that are kept: made from a fit, and in a file of their own.
 *
 * The file is safetensors: "weight" (dim, 2·dim) in F16 or F32 and "bias" (dim) in F32, and as metadata
 * "format": "swiftlet-bridge-1", the model's "fingerprint", and "first" and "last", the blocks that it stands
 * for, both included. One of another model is refused. */
#ifndef SWIFTLET_CORE_BRIDGE_BRIDGE_FILE_H
#define SWIFTLET_CORE_BRIDGE_BRIDGE_FILE_H

#include "kernels/backend.h"

struct kept_bridge {
	struct bridge bridge;
	void* memory; /* what it points into; NULL: none is kept */
};

/* In place of blocks first..last, from weight (dim, 2·dim) and bias (dim), which are copied: in F16, or in
 * F32 where a weight is beyond F16's range. False on no memory. */
bool kept_bridge_make(struct kept_bridge*, int dim, int first, int last, const float* weight,
                      const float* bias);
void kept_bridge_free(struct kept_bridge*);

/* Of a file's bytes; `name` for messages, the model's shape and fingerprint to check against. False with the
 * error set; nothing is kept then. */
bool bridge_read(struct kept_bridge*, const uint8_t* data, size_t size, const struct model_shape*,
                 const char* fingerprint, const char* name, struct error*);
bool bridge_file_read(struct kept_bridge*, const char* path, const struct model_shape*,
                      const char* fingerprint, struct error*);
/* Writes it beside the path and renames. False with the error set. */
bool bridge_file_write(const char* path, const struct bridge*, const char* fingerprint, struct error*);

#endif
