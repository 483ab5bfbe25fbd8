/* A request's head of any bytes: no byte behind them is read, and one that was refused stays so with more. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "streams/service/server_head.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	struct api_error e;
	enum head_state before = HEAD_PART;
	for (size_t n = size > 64 ? size - 64 : 0; n <= size; n++) {
		char* bytes = malloc(n ? n : 1);
		if (!bytes)
			abort();
		memcpy(bytes, data, n);
		const enum head_state now = head_read(bytes, n, &e);
		if (head_gets(bytes, n, "/health") && now == HEAD_PART)
			abort();
		free(bytes);
		if (before != HEAD_PART && now != before)
			abort();
		if (now == HEAD_REFUSED && (e.status < 400 || !e.message[0]))
			abort();
		before = now;
	}
	return 0;
}
