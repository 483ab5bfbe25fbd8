/* Any bytes as tekken.json: read or refused with a message. */
#include <stdlib.h>

#include "core/text/tokenizer.h"
#include "tests/fuzz/mutate_json.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	static const char text[] = "the cat [INST] \xff  sat\n";
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_tekken((const char*)data, size, NULL, &error);
	if (!t) {
		if (!error.message[0])
			abort();
		return 0;
	}
	struct token_list ids = {0};
	size_t length;
	if (!tokenizer_encode(t, text, sizeof text - 1, 0, &ids))
		abort();
	free(tokenizer_decode(t, ids.id, ids.n, true, false, &length));
	token_list_free(&ids);
	tokenizer_free(t);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_json(data, size, most, 0, seed);
}
