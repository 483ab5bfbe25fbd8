/* Counters of the emulated device since the program began, for tests. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_counts {
	unsigned long launches;  /* of kernels, that were run */
	unsigned long blocks;    /* of them */
	unsigned long waits;     /* of the host for a stream */
	unsigned long most_adds; /* of 64 bits to one address within a launch */
	unsigned long weights;   /* loads of 16 bytes of them */
};
struct emulated_counts emulated_counts(void);

/* The logits (rows, vocab) that the last slice left. */
struct backend;
void emulated_logits(const struct backend*, int rows, float* out);
/* The attention mass (pages, n_blocks) of a cache's first pages. */
struct cache;
void emulated_mass(const struct cache*, int pages, float* out);

#ifdef __cplusplus
}
#endif
