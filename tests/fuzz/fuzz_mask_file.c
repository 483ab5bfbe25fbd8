/* Any bytes as a mask file: read or refused; what was read is written in both formats and read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "streams/mask_file.h"
#include "tests/fuzz/mutate_json.h"

static void write_and_read(const struct mask_list* list, enum mask_format format) {
	struct error error;
	struct mask_list again = {0};
	char* const text = mask_text(list->entry, list->n, format, &error);
	if (!text)
		return; /* two masks of one key */
	if (!mask_text_read(text, strlen(text), "again", &again, &error) || again.n != list->n)
		abort();
	for (int i = 0; i < list->n; i++)
		if (!mask_equal(&again.entry[i].mask, &list->entry[i].mask))
			abort();
	mask_list_free(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	struct error error;
	struct mask_list list = {0};
	if (mask_text_read((const char*)data, size, "fuzz", &list, &error)) {
		for (int i = 0; i < list.n; i++) {
			mask_entry_fits(&list.entry[i], 20, "0123", false, "fuzz", &error);
			mask_list_pick(&list, "math", "0123", "fuzz", &error);
		}
		write_and_read(&list, MASK_FORMAT_SWIFTLET);
		write_and_read(&list, MASK_FORMAT_SKIP_LAYERS);
	} else if (list.n != 0 || !memchr(error.message, 0, sizeof error.message)) {
		abort();
	}
	mask_list_free(&list);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_json(data, size, most, 0, seed);
}
