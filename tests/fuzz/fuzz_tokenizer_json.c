/* Any bytes as tokenizer.json, and what follows a line of "%%" as tokenizer_config.json: read or refused
 * with a message; what was read encodes and decodes. */
#include <stdlib.h>
#include <string.h>

#include "core/text/tokenizer.h"
#include "tests/fuzz/mutate_json.h"

static void use(const struct tokenizer* t) {
	static const char text[] = "Hello, world 12 <s>\xff\n \xe4\xb8\xad foo";
	for (int flags = 0; flags < 4; flags++) {
		struct token_list ids = {0};
		size_t size;
		if (!tokenizer_encode(t, text, sizeof text - 1, flags, &ids))
			abort();
		for (int i = 0; i < ids.n; i++)
			if (ids.id[i] < 0 || ids.id[i] >= tokenizer_size(t))
				abort();
		free(tokenizer_decode(t, ids.id, ids.n, true, true, &size));
		token_list_free(&ids);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	struct error error = {""};
	const uint8_t* mark = memmem(data, size, "\n%%\n", 4);
	char* config = NULL;
	if (mark) {
		size_t length = (size_t)(data + size - mark) - 4;
		config = calloc(1, length + 1);
		memcpy(config, mark + 4, length);
		size = (size_t)(mark - data);
	}
	struct tokenizer* t = tokenizer_from_json((const char*)data, size, config, &error);
	if (t)
		use(t);
	else if (!error.message[0])
		abort();
	tokenizer_free(t);
	free(config);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_json(data, size, most, 0, seed);
}
