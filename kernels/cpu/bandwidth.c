/* How fast the pool's threads read memory together: what a decode step's weights can at best do. */
#include "kernels/clock.h"
#include "kernels/cpu/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 7 };
static const size_t buffer_bytes = (size_t)384 << 20, piece_bytes = (size_t)1 << 20;

uint64_t read_memory(const void* memory, size_t bytes) {
	const uint64_t* words = memory;
	uint64_t fold[8] = {0};
	for (size_t i = 0; i < bytes / 64; i++)
		for (int j = 0; j < 8; j++)
			fold[j] ^= words[i * 8 + (size_t)j];
	return fold[0] ^ fold[1] ^ fold[2] ^ fold[3] ^ fold[4] ^ fold[5] ^ fold[6] ^ fold[7];
}

struct read_job {
	const unsigned char* memory;
	_Atomic uint64_t folded; /* keeps the reads from being optimised away */
};

static void read_piece(void* user, int part, int thread) {
	(void)thread;
	struct read_job* job = user;
	atomic_fetch_xor(&job->folded, read_memory(job->memory + (size_t)part * piece_bytes, piece_bytes));
}

double cpu_bandwidth(struct backend* backend) {
	struct cpu_backend* b = cpu_of(backend);
	unsigned char* memory = aligned_alloc(64, buffer_bytes);
	if (!memory)
		return 0;
	memset(memory, 1, buffer_bytes);
	struct read_job job = {.memory = memory};
	atomic_init(&job.folded, 0);
	double best = 0;
	pool_begin(b->pool);
	for (int i = 0; i < RUNS; i++) {
		const double start = seconds_now();
		pool_run(b->pool, (int)(buffer_bytes / piece_bytes), read_piece, &job);
		const double rate = (double)buffer_bytes / (seconds_now() - start);
		best = rate > best ? rate : best;
	}
	pool_end(b->pool);
	free(memory);
	return best;
}
