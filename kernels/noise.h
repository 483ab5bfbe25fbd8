/* Gumbel noise by a counter, the same bits on every processor.
 *
 * The random bits are Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"):
 * key = seed, counter = (token / 4, position, sequence), output word token mod 4. From 31 of them and a half
 * comes w in (0, 1), and G = -log(E), E = -log(1 - w), standard exponential; both ends of w keep their
 * relative precision, so that the upper tail (which decides) reaches 22.
 *
 * Logarithms are our own: separate, correctly rounded multiplications, additions and divisions in one
 * order, which no compiler may fuse (-ffp-contract=off, -fmad=false). So a CPU of any kind and a GPU agree to
 * the bit. */
#pragma once

#include "kernels/anywhere.h"

/* a when which is 1, b when it is 0; both are computed, so that loops have no branch. */
ANYWHERE float noise_select(uint32_t which, float a, float b) {
	const uint32_t mask = 0u - which;
	return float_from_bits((bits_from_float(a) & mask) | (bits_from_float(b) & ~mask));
}

struct noise_words {
	uint32_t word[4];
};

/* Philox 4x32, ten rounds. */
ANYWHERE struct noise_words noise_philox(uint64_t seed, uint64_t sequence, uint32_t position, uint32_t quad) {
	uint32_t c0 = quad, c1 = position, c2 = (uint32_t)sequence, c3 = (uint32_t)(sequence >> 32);
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#if defined(__GNUC__) && !defined(__CUDACC__)
#pragma GCC unroll 10
#endif
	for (int round = 0; round < 10; round++) {
		const uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)b;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)a;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	struct noise_words out;
	out.word[0] = c0;
	out.word[1] = c1;
	out.word[2] = c2;
	out.word[3] = c3;
	return out;
}

/* 2·atanh(s) = log((1 + s) / (1 - s)) for |s| <= 1/3, by its series. */
ANYWHERE float noise_log_ratio(float s) {
	const float z = s * s;
	float p = 1.0f / 15;
	p = p * z + 1.0f / 13;
	p = p * z + 1.0f / 11;
	p = p * z + 1.0f / 9;
	p = p * z + 1.0f / 7;
	p = p * z + 1.0f / 5;
	p = p * z + 1.0f / 3;
	const float twice = s + s;
	return twice + twice * (p * z);
}

/* x = (1 + f)·2^e with 1 + f in [sqrt(1/2), sqrt(2)), x a normal positive float. */
ANYWHERE float noise_split(float x, float* e) {
	const uint32_t bits = bits_from_float(x);
	const int32_t exponent = (int32_t)(bits - 0x3f3504f3u) >> 23;
	*e = (float)exponent;
	return float_from_bits(bits - ((uint32_t)exponent << 23)) - 1.0f;
}

/* log((1 + f)·2^e), f in [-1/2, 1/2) */
ANYWHERE float noise_log_of(float f, float e) {
	const float small = noise_log_ratio(f / (f + 2.0f));
	/* log 2 in two parts: the first has trailing zeros, so that e times it is exact */
	return e * 0.693359375f + (small - e * 2.12194440e-4f);
}

ANYWHERE float noise_log(float x) {
	float e;
	const float f = noise_split(x, &e);
	return noise_log_of(f, e);
}

/* -log(1 - w) for w made of 31 random bits and a half: below one half straight from w, above from the
 * bits of 1 - w. */
ANYWHERE float noise_exponential(uint32_t word) {
	const float scale = 1.0f / 2147483648.0f;
	const uint32_t bits = word >> 1;
	const float w = ((float)(int32_t)bits + 0.5f) * scale;
	const float rest = ((float)(int32_t)(0x7fffffffu - bits) + 0.5f) * scale;
	float e;
	const float f = noise_split(rest, &e);
	const uint32_t below = bits < 0x40000000u;
	return -noise_log_of(noise_select(below, -w, f), noise_select(below, 0.0f, e));
}

ANYWHERE float noise_gumbel(uint32_t word) { return -noise_log(noise_exponential(word)); }

/* No noise is over 22.2 (w = 2^-32). */
#define NOISE_MOST 22.25f

enum { NOISE_BLOCK = 64 };

/* noise (NOISE_BLOCK): of tokens 4·first_quad and on. In steps that a compiler can lay side by side. */
ANYWHERE void noise_block(float* noise, uint64_t seed, uint64_t sequence, uint32_t position,
                          uint32_t first_quad) {
	enum { QUADS = NOISE_BLOCK / 4 };
	uint32_t word[NOISE_BLOCK]; /* (4, QUADS) */
	float made[NOISE_BLOCK];
	for (uint32_t i = 0; i < QUADS; i++) {
		const struct noise_words words = noise_philox(seed, sequence, position, first_quad + i);
		word[i] = words.word[0];
		word[QUADS + i] = words.word[1];
		word[2 * QUADS + i] = words.word[2];
		word[3 * QUADS + i] = words.word[3];
	}
	for (int i = 0; i < NOISE_BLOCK; i++)
		made[i] = noise_gumbel(word[i]);
	for (int i = 0; i < NOISE_BLOCK; i++)
		noise[i] = made[i % 4 * QUADS + i / 4];
}

/* e^x for x <= 0, 0 below -87. Polynomial of Cephes' expf. */
ANYWHERE float noise_exp(float x) {
	const float y = x < -87.0f ? -87.0f : x;
	const float shifted = y * 1.44269504f + 12582912.0f; /* rounds to an integer */
	const float n = shifted - 12582912.0f;
	float r = y - n * 0.693359375f;
	r += n * 2.12194440e-4f;
	float p = 1.9875691500e-4f;
	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * (r * r) + r + 1.0f;
	const float e = p * float_from_bits((bits_from_float(shifted) + 127u) << 23);
	return noise_select(x < -87.0f, 0.0f, e);
}

/* The sampler's key: the processed logit plus the noise. max: the row's largest logit. */
ANYWHERE float noise_score(float logit, float max, float temperature, float gumbel) {
	return (logit - max) / temperature + gumbel;
}
