/* How fast the pool's threads read memory together: what a decode step's weights can at best do. */
#include "kernels/clock.h"
#include "kernels/cpu/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 7 };
static const size_t buffer_bytes = (size_t)384 << 20, piece_bytes = (size_t)1 << 20;

struct read_job {
	const struct cpu_kernels* kernels;
	const unsigned char* memory;
	_Atomic uint64_t folded; /* keeps the reads from being optimised away */
};

static void read_piece(void* user, int part, int thread) {
	(void)thread;
	struct read_job* job = user;
	atomic_fetch_xor(&job->folded, job->kernels->read(job->memory + (size_t)part * piece_bytes, piece_bytes));
}

double cpu_bandwidth(struct backend* backend) {
	struct cpu_backend* b = cpu_of(backend);
	unsigned char* memory = aligned_alloc(64, buffer_bytes);
	if (!memory)
		return 0;
	memset(memory, 1, buffer_bytes);
	struct read_job job = {.kernels = b->kernels, .memory = memory};
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
