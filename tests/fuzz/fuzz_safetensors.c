/* Any bytes as a safetensors file: read or refused; what was read lies within the bytes, can be found, and is
 * laid anew or refused. */
#include <stdlib.h>

#include "core/files/safetensors.h"
#include "core/model/repack.h"

static volatile unsigned sum;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	struct error error = {""};
	struct tensor_table table = {0};
	const bool good =
	    safetensors_read(&table, data, size, "fuzz", &error) && tensor_table_seal(&table, &error);
	if (!good && !error.message[0])
		abort();
	for (size_t i = 0; good && i < table.n; i++) {
		const struct named_tensor* t = &table.item[i];
		struct tensor view;
		if (tensor_table_find(&table, t->name) != t)
			abort();
		for (size_t b = 0; b < t->bytes; b++)
			sum += t->data[b];
		tensor_table_take(&table, t->name, t->dim[0], t->dim[1], &view, &error);
	}
	struct kept kept = {0};
	const struct fp8_blocks blocks = {size % 3 ? 2 : 0, size % 3};
	if (good && repack_scaled(&table, &blocks, &kept, &error))
		for (size_t i = 0; i < table.n; i++)
			for (size_t b = 0; b < table.item[i].bytes; b++)
				sum += table.item[i].data[b];
	kept_free(&kept);
	tensor_table_free(&table);
	return 0;
}
