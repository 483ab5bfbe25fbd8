/* Any bytes as vocab.json and, after a line of "%%", merges.txt: read or refused with a message. */
#include <stdlib.h>
#include <string.h>

#include "core/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	static const char text[] = "the cat <|endoftext|> \xff  sat\n";
	struct error error = {""};
	const uint8_t* mark = memmem(data, size, "\n%%\n", 4);
	size_t vocab = mark ? (size_t)(mark - data) : size;
	const char* merges = mark ? (const char*)mark + 4 : "";
	size_t merges_size = mark ? size - vocab - 4 : 0;
	struct tokenizer* t = tokenizer_from_merges((const char*)data, vocab, merges, merges_size, NULL, &error);
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
