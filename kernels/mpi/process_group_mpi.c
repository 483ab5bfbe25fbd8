/* struct process_group over MPI: a module of its own (swiftlet-mpi.so), so that swiftlet itself needs no MPI.
 *
 * A rank that waits spins for as long as a pass takes to get there, then sleeps between looks: ranks may
 * share cores, and a service may be idle for hours. Errors are fatal, as MPI has it: its launcher ends the
 * others and reports which rank died. */
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/clock.h"
#include "kernels/process_group.h"

struct mpi_group {
	struct process_group head;
	float *send, *receive; /* (room) */
	size_t room;
	int *count, *first; /* (ranks) floats of each rank's part */
};

static void wait_for(MPI_Request* request) {
	static const double awake = 2e-3; /* seconds */
	const struct timespec nap = {.tv_nsec = 50000};
	const double begun = seconds_now();
	for (int done = 0;;) {
		MPI_Test(request, &done, MPI_STATUS_IGNORE);
		if (done)
			return;
		if (seconds_now() - begun < awake)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}

static bool mpi_reserve(struct process_group* group, size_t floats) {
	struct mpi_group* e = (struct mpi_group*)group;
	if (floats <= e->room)
		return true;
	free(e->send);
	free(e->receive);
	e->send = malloc(floats * sizeof *e->send);
	e->receive = malloc(floats * sizeof *e->receive);
	e->room = e->send && e->receive ? floats : 0;
	return e->room > 0;
}

static void mpi_broadcast(struct process_group* group, void* bytes, size_t size) {
	static const size_t most = (size_t)1 << 30; /* MPI counts in int */
	(void)group;
	for (size_t at = 0; at < size; at += most) {
		MPI_Request request;
		const size_t n = size - at < most ? size - at : most;
		MPI_Ibcast((char*)bytes + at, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
		wait_for(&request);
	}
}

/* Copies rank's columns of the n rows from or to a packed buffer; floats copied. */
static size_t copy_share(const struct process_group* e, const struct shared_rows* s, int n, int rank,
                         float* packed, bool pack) {
	const int64_t begin = share_first(s->rows, rank, e->ranks),
	              end = share_first(s->rows, rank + 1, e->ranks);
	const size_t width = (size_t)(end - begin);
	for (int i = 0; i < n; i++) {
		float* row = s->out + (size_t)i * s->stride + begin;
		if (pack)
			memcpy(packed + (size_t)i * width, row, width * sizeof *row);
		else
			memcpy(row, packed + (size_t)i * width, width * sizeof *row);
	}
	return (size_t)n * width;
}

static void mpi_gather(struct process_group* group, const struct shared_rows* shared, int count, int n) {
	const struct mpi_group* e = (struct mpi_group*)group;
	int total = 0;
	for (int r = 0; r < group->ranks; r++) {
		e->first[r] = total;
		e->count[r] = 0;
		for (int i = 0; i < count; i++)
			e->count[r] += n * (int)(share_first(shared[i].rows, r + 1, group->ranks) -
			                         share_first(shared[i].rows, r, group->ranks));
		total += e->count[r];
	}
	size_t packed = 0;
	for (int i = 0; i < count; i++)
		packed += copy_share(group, &shared[i], n, group->rank, e->send + packed, true);
	MPI_Request request;
	MPI_Iallgatherv(e->send, (int)packed, MPI_FLOAT, e->receive, e->count, e->first, MPI_FLOAT,
	                MPI_COMM_WORLD, &request);
	wait_for(&request);
	for (int r = 0; r < group->ranks; r++) {
		size_t at = (size_t)e->first[r];
		for (int i = 0; i < count && r != group->rank; i++)
			at += copy_share(group, &shared[i], n, r, e->receive + at, false);
	}
}

static void mpi_close(struct process_group* group) {
	struct mpi_group* e = (struct mpi_group*)group;
	MPI_Finalize();
	free(e->send);
	free(e->receive);
	free(e->count);
	free(e->first);
	free(e);
}

/* The module's one entry. NULL where there is no memory; what else fails ends the process with MPI's words.
 */
__attribute__((visibility("default"))) struct process_group* process_group_mpi_open(void) {
	struct mpi_group* e = calloc(1, sizeof *e);
	int given;
	if (!e)
		return NULL;
	MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given);
	MPI_Comm_rank(MPI_COMM_WORLD, &e->head.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &e->head.ranks);
	e->head.reserve = mpi_reserve;
	e->head.broadcast = mpi_broadcast;
	e->head.gather = mpi_gather;
	e->head.close = mpi_close;
	e->count = calloc((size_t)e->head.ranks, sizeof *e->count);
	e->first = calloc((size_t)e->head.ranks, sizeof *e->first);
	if (e->count && e->first)
		return &e->head;
	MPI_Abort(MPI_COMM_WORLD, 1);
	return NULL;
}
