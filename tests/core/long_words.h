/* Long words of several kinds, the same on every machine. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_WORD = 60000, LONG_WORD_KINDS = 8 };

static inline uint32_t long_word_random(uint64_t* state, uint32_t n) {
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33) % n;
}

/* One unit of the kind; returns its bytes, at most 64. */
static inline size_t long_word_unit(int kind, uint64_t* state, char* out) {
	static const char* const unit[] = {" ",    "  ",   "\n",   "\r\n",     "\t",           "the",
	                                   " and", "=-",   "ing",  "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80",
	                                   "\xff", "aaaa", "0123", "'s"};
	size_t n = 1;
	switch (kind) {
	case 0: /* one letter */
		*out = 'a';
		return 1;
	case 1: /* spaces, ended now and then */
		memset(out, ' ', 64);
		n = 1 + long_word_random(state, 63);
		out[n] = long_word_random(state, 40) ? ' ' : '.';
		return n + 1;
	case 2: /* letters by frequency */
		*out = "etaoinshrdlucmfwypvbgkqjxz"[long_word_random(state, 1 + long_word_random(state, 26))];
		return 1;
	case 3: /* capitals */
		*out = (char)('A' + (char)long_word_random(state, 26));
		return 1;
	case 4: /* ideographs */
		out[0] = (char)(0xE4 + long_word_random(state, 5));
		out[1] = (char)(0x80 + long_word_random(state, 64));
		out[2] = (char)(0x80 + long_word_random(state, 64));
		return 3;
	case 5: /* marks */
		*out = "!\"#$%&()*+,-./:;<=>?@[]^_`{|}~"[long_word_random(state, 30)];
		return 1;
	case 6: /* a word over and over */
		memcpy(out, "antidisestablishment", 20);
		return 20;
	default:; /* anything, in runs */
		const char* const one = unit[long_word_random(state, 16)];
		const size_t size = strlen(one), times = 1 + long_word_random(state, 6);
		for (; n <= times; n++)
			memcpy(out + (n - 1) * size, one, size);
		return times * size;
	}
}

/* LONG_WORD bytes; free them. */
static inline char* long_word(int kind) {
	char* const text = malloc(LONG_WORD + 64);
	uint64_t state = (uint64_t)kind + 1;
	for (size_t at = 0; at < LONG_WORD;)
		at += long_word_unit(kind, &state, text + at);
	return text;
}
