/* safetensors: eight bytes of header length, a JSON header, then the tensors' bytes.
 *
 *   u64 n │ n bytes of {"name": {"dtype": "F16", "shape": [..], "data_offsets": [begin, end]}, …} │ data
 *
 * Offsets count from the end of the header. Tensors may not overlap and lie wholly in the file. */
#pragma once

#include "core/files/tensor_table.h"

/* Adds the tensors of one file's bytes to the table; `file` must outlive it. Only names are copied. False
 * with the error set. */
bool safetensors_read(struct tensor_table*, const uint8_t* data, size_t size, const char* file,
                      struct error*);

/* The string that __metadata__ holds under this key, cut to fit; false without one. */
bool safetensors_metadata(const uint8_t* data, size_t size, const char* key, char* out, size_t out_size);
