/* Growing arrays. `array` is the address of the pointer, NULL at first. False when memory runs out; then the
 * array is unchanged. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for n elements of `element` bytes, and at least doubles the array. */
static inline bool grow_to(void* array, size_t* capacity, size_t n, size_t element) {
	enum { FEWEST = 64 };
	void* old;
	if (n <= *capacity)
		return true;
	size_t wanted = n < FEWEST ? FEWEST : n;
	if (wanted < 2 * *capacity)
		wanted = 2 * *capacity;
	memcpy(&old, array, sizeof old);
	void* const grown = wanted > SIZE_MAX / 2 / element ? NULL : realloc(old, wanted * element);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof grown);
	*capacity = wanted;
	return true;
}

/* Makes room for one more after n. The array must grow only by this call, which takes its capacity to be a
 * power of two. */
static inline bool grow_by_one(void* array, size_t n, size_t element) {
	enum { FEWEST = 16 };
	size_t capacity = 0;
	return n & (n - 1) || (n && n < FEWEST) || grow_to(array, &capacity, n ? 2 * n : FEWEST, element);
}
