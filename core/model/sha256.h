/* SHA-256 (FIPS 180-4), for fingerprints. Small and plain; none of the libraries we link exports one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t state[8];
	uint64_t size; /* bytes taken so far */
	uint8_t held[64];
};

void sha256_start(struct sha256*);
void sha256_add(struct sha256*, const void* data, size_t size);
/* Writes 64 lower-case hex digits and a NUL. */
void sha256_end(struct sha256*, char hex[65]);
