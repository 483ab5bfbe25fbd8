/* Draws the next byte of a text that a grammar allows. */
#pragma once

#include <string.h>

#include "core/grammar/states.h"

static inline uint32_t next_random(uint32_t* seed) {
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* 0: no byte may come. Mostly one of the likely bytes; close: one that ends a value, if it may come. */
static inline uint8_t draw_byte(struct states* s, int at, const char* likely, bool close, uint32_t* seed) {
	uint8_t byte[256];
	int some = 0, good = 0;
	for (int b = 1; b < 256; b++)
		if (states_step(s, at, (uint8_t)b) != STATE_DEAD)
			byte[some++] = (uint8_t)b;
	if (some == 0)
		return 0;
	for (int i = 0; i < some; i++)
		if (strchr(likely, byte[i])) {
			const uint8_t kept = byte[good];
			byte[good++] = byte[i];
			byte[i] = kept;
		}
	const int of = good > 0 && next_random(seed) % 8 ? good : some;
	uint8_t b = byte[next_random(seed) % (uint32_t)of];
	for (int i = 0; close && i < good; i++)
		if (strchr("\"]}", byte[i]))
			b = byte[i];
	return b;
}
