/* What the mutators share: libFuzzer's own, and numbers that follow from its seed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed);

static inline uint32_t draw_number(uint32_t* random, uint32_t below) {
	*random = *random * 1664525u + 1013904223u;
	return (*random >> 8) % below;
}
