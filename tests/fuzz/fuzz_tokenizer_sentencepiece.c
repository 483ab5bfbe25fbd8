/* Any bytes as tokenizer.model: read or refused with a message; what was read encodes and decodes. */
#include <stdlib.h>

#include "core/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	static const char text[] = "the cat <s> \xff\xe2\x96\x81  sat\n";
	struct error error = {""};
	struct tokenizer* t = tokenizer_from_sentencepiece(data, size, NULL, &error);
	if (!t) {
		if (!error.message[0])
			abort();
		return 0;
	}
	struct token_list ids = {0};
	size_t length;
	if (!tokenizer_encode(t, text, sizeof text - 1, TOKENIZE_ADD_SPECIAL, &ids))
		abort();
	for (int i = 0; i < ids.n; i++)
		if (ids.id[i] < 0 || ids.id[i] >= tokenizer_size(t))
			abort();
	free(tokenizer_decode(t, ids.id, ids.n, true, true, &length));
	token_list_free(&ids);
	tokenizer_free(t);
	return 0;
}
