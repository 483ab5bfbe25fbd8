/* The CPU's inner loops, timed on weights that no cache holds.
 *
 * All matrices are views of one buffer; its bytes are such that every type finds ordinary numbers in
 * them. A measurement is the best of a few sweeps through the buffer by all threads. */
#include "tools/lab/bench_kernels.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/pool.h"
#include "tools/lab/kernel_operations.h"

enum {
	MATRIX_ROWS = 5632,
	MATRIX_COLS = 2048,
	PART_ROWS = 176, /* of 32 parts a matrix */
	PARTS = MATRIX_ROWS / PART_ROWS,
	BUFFER_BYTES = 144 << 20,
	READ_PARTS = 64,
	HEAD_DIM = 64,
	GROUP = 8,
	CONTEXT = 4096,
	SWEEPS = 5,
	MAX_THREADS = 256
};

static const int row_counts[] = {1, 2, 4, 8, 16, 32, 64};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

struct bench {
	const struct cpu_kernels* kernels;
	struct pool* pool;
	unsigned char* buffer;
	int matrices;    /* of the type in hand */
	struct tensor w; /* the first of them */
	int rows;
	float* x;                /* (SLICE_ROWS, MATRIX_COLS) */
	unsigned char* prepared; /* (SLICE_ROWS) */
	float* out;              /* (SLICE_ROWS, MATRIX_ROWS), and attention's outputs a thread */
	float* scores;           /* (MAX_THREADS, GROUP, CONTEXT + 1) */
	uint64_t sink[MAX_THREADS * 8];
	double bandwidth, clock; /* bytes and cycles a second */
	bool json;
	cJSON* list;
};

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Best time of a sweep; after a second of sweeping no more are begun. */
static double best_sweep(struct bench* b, int parts, void (*work)(void*, int, int)) {
	double best = 1e30;
	const double start = now();
	pool_begin(b->pool);
	for (int i = 0; i < SWEEPS && (i < 1 || now() - start < 1); i++) {
		const double t = now();
		pool_run(b->pool, parts, work, b);
		const double took = now() - t;
		best = took < best ? took : best;
	}
	pool_end(b->pool);
	return best;
}

static void read_part(void* user, int part, int thread) {
	struct bench* b = user;
	const size_t bytes = BUFFER_BYTES / READ_PARTS;
	b->sink[thread * 8] ^= b->kernels->read(b->buffer + (size_t)part * bytes, bytes);
}

static void matmul_part(void* user, int part, int thread) {
	(void)thread;
	struct bench* b = user;
	struct tensor w = b->w;
	const size_t bytes = dtype_row_bytes(w.type, w.cols) * MATRIX_ROWS;
	w.data = b->buffer + bytes * (size_t)(part / PARTS);
	const int64_t begin = part % PARTS * PART_ROWS;
	b->kernels->matmul(b->out, MATRIX_ROWS, &w, begin, begin + PART_ROWS, b->prepared, b->rows);
}

static void prepare_part(void* user, int part, int thread) {
	(void)thread;
	struct bench* b = user;
	const size_t bytes = b->kernels->prepared_bytes(b->w.type, MATRIX_COLS);
	b->kernels->prepare(b->w.type, b->prepared + (size_t)part * bytes, b->x + part * MATRIX_COLS,
	                    MATRIX_COLS);
}

/* One key/value head's keys and values, and the group of query heads that reads them */
static void attention_part(void* user, int part, int thread) {
	struct bench* b = user;
	const size_t slot = HEAD_DIM * 2, head = slot * CONTEXT;
	const unsigned char* page[CONTEXT / PAGE_SLOTS];
	for (size_t i = 0; i < CONTEXT / PAGE_SLOTS; i++)
		page[i] = b->buffer + 2 * head * (size_t)part + 2 * i * PAGE_SLOTS * slot;
	const int32_t ancestor = CONTEXT - 1;
	const struct attention_row row = {.page = page,
	                                  .value = PAGE_SLOTS * slot,
	                                  .slot_bytes = slot,
	                                  .type = DTYPE_F16,
	                                  .base = CONTEXT - 1,
	                                  .n_ancestors = 1,
	                                  .ancestor = &ancestor,
	                                  .head_dim = HEAD_DIM,
	                                  .group = GROUP,
	                                  .scale = 0.125f};
	b->kernels->attention(b->out + (size_t)thread * GROUP * HEAD_DIM, b->x, GROUP * HEAD_DIM, &row, 1,
	                      b->scores + (size_t)thread * GROUP * (CONTEXT + 1), NULL);
}

/* floor 0: none; one: one row's time, or 0 */
static void report(struct bench* b, const char* kernel, enum dtype type, int rows, double seconds,
                   double floor, double one) {
	const double products = (double)MATRIX_ROWS * MATRIX_COLS / 32 * rows;
	const double cycles = seconds * pool_threads(b->pool) * b->clock / products;
	const double operations = kernel_operations(b->kernels->name, type, rows);
	if (!b->json) {
		printf("%-10s %-7s %4d %12.6f", kernel, dtype_name(type), rows, seconds * 1e3);
		if (floor > 0)
			printf(" %14.2f", floor / seconds);
		if (one > 0)
			printf(" %8.2f %8.2f", seconds / one, cycles);
		if (one > 0 && operations > 0)
			printf(" %8.2f", operations / (cycles * rows));
		printf("\n");
		return;
	}
	cJSON* entry = cJSON_CreateObject();
	cJSON_AddStringToObject(entry, "kernel", kernel);
	cJSON_AddStringToObject(entry, "dtype", dtype_name(type));
	cJSON_AddNumberToObject(entry, "rows", rows);
	cJSON_AddNumberToObject(entry, "seconds", seconds);
	if (floor > 0)
		cJSON_AddNumberToObject(entry, "share_of_floor", floor / seconds);
	else
		cJSON_AddNullToObject(entry, "share_of_floor");
	if (one > 0) {
		cJSON_AddNumberToObject(entry, "over_one_row", seconds / one);
		cJSON_AddNumberToObject(entry, "cycles_for_32_weights_a_row", cycles);
		if (operations > 0)
			cJSON_AddNumberToObject(entry, "operations_a_cycle", operations / (cycles * rows));
	}
	cJSON_AddItemToArray(b->list, entry);
}

/* Seconds a matrix for every row count; returns the first count that is bound by arithmetic, or 0. */
static int bench_products(struct bench* b, const char* kernel, const struct tensor* w) {
	const size_t bytes = dtype_row_bytes(w->type, MATRIX_COLS) * MATRIX_ROWS;
	int bound = 0;
	double one = 0;
	b->w = *w;
	for (int i = 0; i < N_ROW_COUNTS; i++) {
		b->rows = row_counts[i];
		const double seconds = best_sweep(b, b->matrices * PARTS, matmul_part) / b->matrices;
		one = i == 0 ? seconds : one;
		report(b, kernel, w->type, b->rows, seconds, (double)bytes / b->bandwidth, one);
		if (!bound && seconds > 1.5 * one)
			bound = b->rows;
	}
	return bound;
}

/* The same, and how long it takes to prepare a row. Copies for drafting have the type that can be woven. */
static int bench_type(struct bench* b, enum dtype type) {
	const size_t bytes = dtype_row_bytes(type, MATRIX_COLS) * MATRIX_ROWS;
	const size_t prepared = b->kernels->prepared_bytes(type, MATRIX_COLS);
	struct tensor w = {.type = type, .rows = MATRIX_ROWS, .cols = MATRIX_COLS};
	b->w = w;
	b->matrices = strcmp(b->kernels->name, "reference") ? (int)(BUFFER_BYTES / bytes) : 1;
	const double took = best_sweep(b, SLICE_ROWS, prepare_part) / SLICE_ROWS;
	report(b, "prepare", type, 1, took, 0, 0);
	for (int i = 0; i < SLICE_ROWS; i++)
		b->kernels->prepare(type, b->prepared + (size_t)i * prepared, b->x + i * MATRIX_COLS, MATRIX_COLS);
	const int bound = bench_products(b, "matmul", &w);
	w.woven = type == DTYPE_Q4_K;
	if (w.woven)
		bench_products(b, "woven", &w);
	return bound;
}

static void bench_all(struct bench* b) {
	int bound[DTYPE_COUNT];
	b->bandwidth = (double)BUFFER_BYTES / best_sweep(b, READ_PARTS, read_part);
	b->clock = core_clock();
	if (!b->json)
		printf("%s, %d threads, read bandwidth %.1f GB/s, %.2f GHz\n"
		       "cycles: a core's for 32 weights and a row; ops: of those needed on paper, a cycle\n\n"
		       "%-10s %-7s %4s %12s %14s %8s %8s %8s\n",
		       b->kernels->name, pool_threads(b->pool), b->bandwidth * 1e-9, b->clock * 1e-9, "kernel",
		       "dtype", "rows", "milliseconds", "share of floor", "v", "cycles", "ops");
	for (int t = 0; t < DTYPE_COUNT; t++)
		bound[t] = bench_type(b, (enum dtype)t);
	const size_t pair = (size_t)HEAD_DIM * 2 * CONTEXT * 2;
	const int heads = (int)(BUFFER_BYTES / pair);
	const double seconds = best_sweep(b, heads, attention_part) / heads;
	report(b, "attention", DTYPE_F16, 1, seconds, (double)pair / b->bandwidth, 0);
	cJSON* list = b->json ? cJSON_CreateArray() : NULL;
	for (int t = 0; t < DTYPE_COUNT; t++)
		if (!b->json) {
			printf("%s%-7s %s", t ? "" : "\nRows that take more than 1.5 times one row's time:\n",
			       dtype_name((enum dtype)t), bound[t] ? "from " : "none\n");
			if (bound[t])
				printf("%d\n", bound[t]);
		} else {
			cJSON* entry = cJSON_CreateObject();
			cJSON_AddStringToObject(entry, "dtype", dtype_name((enum dtype)t));
			if (bound[t])
				cJSON_AddNumberToObject(entry, "rows", bound[t]);
			else
				cJSON_AddNullToObject(entry, "rows");
			cJSON_AddItemToArray(list, entry);
		}
	if (!b->json)
		return;
	cJSON* object = cJSON_CreateObject();
	cJSON_AddStringToObject(object, "isa", b->kernels->name);
	cJSON_AddNumberToObject(object, "threads", pool_threads(b->pool));
	cJSON_AddNumberToObject(object, "bandwidth_measured", b->bandwidth);
	cJSON_AddNumberToObject(object, "clock", b->clock);
	cJSON_AddItemToObject(object, "kernels", b->list);
	cJSON_AddItemToObject(object, "arithmetic_bound", list);
	char* text = cJSON_PrintUnformatted(object);
	printf("%s\n", text ? text : "{}");
	cJSON_free(text);
	cJSON_Delete(object);
}

static void fill(struct bench* b) {
	uint64_t state = 1;
	for (size_t i = 0; i < BUFFER_BYTES; i++) { /* 0x30…0x3f: between 1e-9 and 2 in every float type */
		state = state * 6364136223846793005u + 1442695040888963407u;
		b->buffer[i] = (unsigned char)(0x30 | state >> 60);
	}
	for (int i = 0; i < SLICE_ROWS * MATRIX_COLS; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		b->x[i] = (float)(int32_t)(state >> 32) * 0x1p-31f;
	}
}

int bench_kernels(const char* isa, int threads, bool json) {
	struct error error = {{0}};
	struct bench* b = calloc(1, sizeof *b);
	const size_t prepared = (size_t)SLICE_ROWS * (MATRIX_COLS * 4 + 4096);
	int status = 1;
	if (b && (b->kernels = cpu_kernels_choose(isa ? isa : "auto", &error)) &&
	    (b->pool = pool_open(threads))) {
		b->json = json;
		b->buffer = aligned_alloc(4096, BUFFER_BYTES);
		b->x = malloc(sizeof(float) * SLICE_ROWS * MATRIX_COLS);
		b->prepared = aligned_alloc(64, prepared);
		b->out = malloc(sizeof(float) * SLICE_ROWS * MATRIX_ROWS);
		b->scores = malloc(sizeof(float) * MAX_THREADS * GROUP * (CONTEXT + 1));
		if (json)
			b->list = cJSON_CreateArray();
		if (b->buffer && b->x && b->prepared && b->out && b->scores && pool_threads(b->pool) <= MAX_THREADS) {
			fill(b);
			bench_all(b);
			status = 0;
		} else {
			error_set(&error, "not enough memory for the kernels' benchmark");
		}
		free(b->buffer);
		free(b->x);
		free(b->prepared);
		free(b->out);
		free(b->scores);
	} else if (!error.message[0]) {
		error_set(&error, "the threads for the kernels' benchmark cannot be made");
	}
	if (status)
		fprintf(stderr, "swiftlet: %s\n", error.message);
	if (b && b->pool)
		pool_close(b->pool);
	free(b);
	return status;
}
