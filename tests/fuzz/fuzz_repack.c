/* Any bytes as the packed tensors of a folder: laid anew or refused with a message; all that was made can be
 * read. The first byte explains how they are packed, the rest is a safetensors file. */
#include <stdlib.h>

#include "core/files/safetensors.h"
#include "core/model/repack.h"

static volatile unsigned sum;

static void read_all(const struct tensor_table* table) {
	for (size_t i = 0; i < table->n; i++)
		for (size_t b = 0; b < table->item[i].bytes; b++)
			sum += table->item[i].data[b];
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	if (size == 0)
		return 0;
	struct error error = {""};
	struct tensor_table table = {0};
	struct kept kept = {0};
	const struct packing packing = {.method = (enum packing_method)(data[0] % 5),
	                                .bits = data[0] >> 3 & 8,
	                                .group = data[0] >> 3 & 1   ? 8
	                                         : data[0] >> 4 & 1 ? 32
	                                                            : 0,
	                                .zeros_less_one = data[0] >> 5 & 1,
	                                .experts_inverted = data[0] >> 6 & 1,
	                                .fp8 = {data[0] >> 7 ? 2 : 0, data[0] >> 7 ? 32 : 0}};
	const bool good = safetensors_read(&table, data + 1, size - 1, "fuzz", &error) &&
	                  tensor_table_seal(&table, &error) && repack_tensors(&table, &packing, &kept, &error);
	if (good)
		read_all(&table);
	else if (!error.message[0])
		abort();
	tensor_table_free(&table);
	kept_free(&kept);
	return 0;
}
