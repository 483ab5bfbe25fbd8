/* Weaving rows. */
#include "kernels/woven.h"

#include <string.h>

#include "kernels/backend.h"

enum { WORD = 4 };

void weave(void* woven, const void* row, int lane, size_t bytes) {
	unsigned char* to = (unsigned char*)woven + lane * WORD;
	for (size_t at = 0; at < bytes; at += WORD, to += WOVEN * WORD)
		memcpy(to, (const unsigned char*)row + at, WORD);
}

void unweave(void* row, const void* woven, int lane, size_t bytes) {
	const unsigned char* from = (const unsigned char*)woven + lane * WORD;
	for (size_t at = 0; at < bytes; at += WORD, from += WOVEN * WORD)
		memcpy((unsigned char*)row + at, from, WORD);
}
