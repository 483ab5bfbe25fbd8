/* Products of activation rows with weights, cut into parts of output rows for the pool.
 *
 * How a product is cut, over threads or processes, changes nothing in its bits: an output element is one
 * weight row times one activation row, whoever computes it. */
#include "kernels/cpu/cpu.h"

#include <assert.h>

/* A part is worth handing out from about this many bytes of weights on (some microseconds of work). */
static const double part_bytes = 64 * 1024;
enum { PARTS_A_THREAD = 16, ROWS_MULTIPLE = 16 };

void spread(struct cpu_backend* b, int n, double cost, void (*work)(void*, int, int), void* user) {
	if (b->threads > 1 && n > 1 && cost >= 2 * part_bytes)
		pool_run(b->pool, n, work, user);
	else
		for (int i = 0; i < n; i++)
			work(user, i, 0);
}

struct multiply_job {
	const struct cpu_kernels* kernels;
	const struct product* product;
	const unsigned char* input[MAX_PRODUCTS];
	int64_t begin[MAX_PRODUCTS], end[MAX_PRODUCTS]; /* this process's share of the output rows */
	int64_t rows_a_part[MAX_PRODUCTS];
	int first_part[MAX_PRODUCTS + 1];
	int count, n;
};

static void multiply_part(void* user, int part, int thread) {
	(void)thread;
	const struct multiply_job* job = user;
	int i = 0;
	while (part >= job->first_part[i + 1])
		i++;
	const struct product* p = &job->product[i];
	const int64_t begin = job->begin[i] + (part - job->first_part[i]) * job->rows_a_part[i];
	const int64_t left = job->end[i] - begin;
	const int64_t end = begin + (left < job->rows_a_part[i] ? left : job->rows_a_part[i]);
	job->kernels->matmul(p->out, p->stride, p->w, begin, end, job->input[i], job->n);
}

struct prepare_job {
	const struct cpu_kernels* kernels;
	enum dtype type;
	unsigned char* out;
	size_t bytes;
	const float* x;
	int64_t cols;
};

static void prepare_row(void* user, int i, int thread) {
	(void)thread;
	const struct prepare_job* job = user;
	job->kernels->prepare(job->type, job->out + (size_t)i * job->bytes, job->x + i * job->cols,
	                      (int)job->cols);
}

/* Matrices of one type share the prepared input. */
static void prepare_inputs(struct cpu_backend* b, struct multiply_job* job, const float* x, int64_t cols) {
	for (int i = 0, kinds = 0; i < job->count; i++) {
		const enum dtype type = job->product[i].w->type;
		job->input[i] = NULL;
		for (int j = 0; j < i; j++)
			if (job->product[j].w->type == type)
				job->input[i] = job->input[j];
		if (job->input[i])
			continue;
		struct prepare_job prepare = {
		    .kernels = b->kernels, .type = type, .out = b->prepared[kinds++], .x = x};
		prepare.bytes = reference_prepared_bytes(type, (int)cols);
		prepare.cols = cols;
		spread(b, job->n, (double)job->n * (double)cols * 2, prepare_row, &prepare);
		job->input[i] = prepare.out;
	}
}

/* The bytes a part should read: few enough that the threads end together, enough to be worth it. Many
 * activation rows make each byte dearer. */
static double bytes_a_part(const struct cpu_backend* b, double bytes, int n) {
	const double dear = 1 + (n - 1) / 4;
	const double least = part_bytes / dear, fair = bytes / (b->threads * PARTS_A_THREAD);
	return fair > least ? fair : least;
}

static void take_shares(const struct cpu_backend* b, struct multiply_job* job) {
	const struct process_group* e = b->group;
	for (int i = 0; i < job->count; i++) {
		const int64_t rows = job->product[i].w->rows;
		job->begin[i] = e ? share_first(rows, e->rank, e->ranks) : 0;
		job->end[i] = e ? share_first(rows, e->rank + 1, e->ranks) : rows;
	}
}

static void gather_shares(const struct cpu_backend* b, const struct multiply_job* job) {
	struct shared_rows shared[MAX_PRODUCTS];
	for (int i = 0; i < job->count; i++) {
		const struct product* p = &job->product[i];
		shared[i] = (struct shared_rows){p->out, p->stride, p->w->rows};
	}
	b->group->gather(b->group, shared, job->count, job->n);
}

void multiply(struct cpu_backend* b, const float* x, int64_t cols, int n, const struct product* product,
              int count) {
	assert(n >= 1 && n <= b->slice_rows && count >= 1 && count <= MAX_PRODUCTS);
	struct multiply_job job = {.kernels = b->kernels, .product = product, .count = count, .n = n};
	prepare_inputs(b, &job, x, cols);
	take_shares(b, &job);
	double bytes = 0;
	for (int i = 0; i < count; i++)
		bytes += (double)(job.end[i] - job.begin[i]) * (double)dtype_row_bytes(product[i].w->type, cols);
	const double each = bytes_a_part(b, bytes, n);
	const bool here = b->threads == 1 || bytes < 4 * each;
	for (int i = 0; i < count; i++) {
		const struct tensor* w = product[i].w;
		const int64_t share = job.end[i] - job.begin[i];
		const double rows = here ? (double)share : each / (double)dtype_row_bytes(w->type, cols);
		const double most = (double)share;
		job.rows_a_part[i] =
		    ((int64_t)(rows < most ? rows : most) + ROWS_MULTIPLE) / ROWS_MULTIPLE * ROWS_MULTIPLE;
		const int64_t parts = (share + job.rows_a_part[i] - 1) / job.rows_a_part[i];
		job.first_part[i + 1] = job.first_part[i] + (int)parts;
	}
	if (here)
		for (int part = 0; part < job.first_part[count]; part++)
			multiply_part(&job, part, 0);
	else
		pool_run(b->pool, job.first_part[count], multiply_part, &job);
	if (b->group)
		gather_shares(b, &job);
}

/* ---- some of the output rows ---------------------------------------------------------------- */

struct groups_job {
	const struct multiply_job* multiply;
	const int32_t* group; /* (n) */
	int n, a_part;
};

/* Neighbouring groups are one range. */
static void groups_part(void* user, int part, int thread) {
	(void)thread;
	const struct groups_job* job = user;
	const struct product* p = job->multiply->product;
	const int first = part * job->a_part, left = job->n - first;
	const int end = first + (left < job->a_part ? left : job->a_part);
	for (int i = first, to; i < end; i = to) {
		for (to = i + 1; to < end && job->group[to] == job->group[to - 1] + 1;)
			to++;
		const int64_t last = ((int64_t)job->group[to - 1] + 1) * INTERLEAVED_ROWS, rows = p->w->rows;
		job->multiply->kernels->matmul(p->out, p->stride, p->w, (int64_t)job->group[i] * INTERLEAVED_ROWS,
		                               last < rows ? last : rows, job->multiply->input[0], job->multiply->n);
	}
}

void multiply_groups(struct cpu_backend* b, const float* x, int64_t cols, int n,
                     const struct product* product, const int32_t* group, int n_groups) {
	struct multiply_job job = {.kernels = b->kernels, .product = product, .count = 1, .n = n};
	assert(!b->group);
	prepare_inputs(b, &job, x, cols);
	const double a_group = INTERLEAVED_ROWS * (double)dtype_row_bytes(product->w->type, cols);
	struct groups_job groups = {.multiply = &job, .group = group, .n = n_groups};
	groups.a_part = 1 + (int)(bytes_a_part(b, a_group * n_groups, n) / a_group);
	spread(b, (n_groups + groups.a_part - 1) / groups.a_part, a_group * n_groups, groups_part, &groups);
}
