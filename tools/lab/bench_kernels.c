/* Times the CPU's inner loops on weights that no cache holds.
 *
 * All matrices are views of one buffer, whose bytes are ordinary numbers in every type. A measurement is the
 * best of a few sweeps of all threads through the buffer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/pool.h"
#include "tools/lab/bench.h"

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
	ATTENTION_ROWS = 4,
	MOST_QUERIES = ATTENTION_ROWS * GROUP,
	SWEEPS = 5,
	MAX_THREADS = 256
};

static const int row_counts[] = {1, 2, 4, 8, 16, 32, 64};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

struct sweeps {
	_Alignas(4096) unsigned char buffer[BUFFER_BYTES];
	_Alignas(64) unsigned char prepared[SLICE_ROWS * (MATRIX_COLS * 4 + 4096)];
	float x[SLICE_ROWS * MATRIX_COLS];
	float out[SLICE_ROWS * MATRIX_ROWS];
	struct {
		float most[2][MOST_QUERIES], total[2][MOST_QUERIES], mixed[2][MOST_QUERIES * HEAD_DIM];
		float mass[MOST_QUERIES * CHUNK_PAGES], scores[MOST_QUERIES * CHUNK_SCORES];
	} attention[MAX_THREADS];
	uint64_t sink[MAX_THREADS * 8];
	const struct cpu_kernels* kernels;
	struct pool* pool;
	int matrices;    /* of the type in hand */
	struct tensor w; /* the first of them */
	int rows;
	double bandwidth; /* bytes a second */
	cJSON* list;
	/* of weights by input channel */
	struct column_map map;
	struct column_list kept;
	uint8_t peak[MATRIX_COLS]; /* all channels' keys are the same */
	uint16_t norm[MATRIX_COLS];
	uint16_t channel[MATRIX_COLS + 16];
	float value[MATRIX_COLS + 16], size[MATRIX_COLS + 16], step[MATRIX_COLS];
};

enum {
	/* cache lines of a channel in a tile: its scales and its codes, as column_run has it */
	RUN_LINES = COLUMN_TILE_LINES + (COLUMN_TILE_LINES * COLUMN_SCALES + COLUMN_LINE - 1) / COLUMN_LINE,
	COLUMN_TILES = BUFFER_BYTES / (MATRIX_COLS * COLUMN_LINE * RUN_LINES),
	COLUMN_MAP_LINES = COLUMN_TILES * COLUMN_TILE_LINES
};

/* The best time of a sweep. After a second no more sweeps are begun. */
static double best_sweep(struct sweeps* b, int parts, void (*work)(void*, int, int)) {
	double best = 1e30;
	const double start = seconds_now();
	pool_begin(b->pool);
	for (int i = 0; i < SWEEPS && (i < 1 || seconds_now() - start < 1); i++) {
		const double t = seconds_now();
		pool_run(b->pool, parts, work, b);
		const double took = seconds_now() - t;
		best = took < best ? took : best;
	}
	pool_end(b->pool);
	return best;
}

static void read_part(void* user, int part, int thread) {
	struct sweeps* b = user;
	const size_t bytes = BUFFER_BYTES / READ_PARTS;
	b->sink[thread * 8] ^= b->kernels->read(b->buffer + (size_t)part * bytes, bytes);
}

static void matmul_part(void* user, int part, int thread) {
	(void)thread;
	struct sweeps* b = user;
	struct tensor w = b->w;
	const size_t bytes = dtype_row_bytes(w.type, w.cols) * MATRIX_ROWS;
	w.data = b->buffer + bytes * (size_t)(part / PARTS);
	const int64_t begin = part % PARTS * PART_ROWS;
	b->kernels->matmul(b->out, MATRIX_ROWS, &w, begin, begin + PART_ROWS, b->prepared, b->rows);
}

static void prepare_part(void* user, int part, int thread) {
	(void)thread;
	struct sweeps* b = user;
	const size_t bytes = reference_prepared_bytes(b->w.type, MATRIX_COLS);
	b->kernels->prepare(b->w.type, b->prepared + (size_t)part * bytes, b->x + part * MATRIX_COLS,
	                    MATRIX_COLS);
}

/* One key/value head's keys and values, and the group of query heads that reads them. */
static void attention_part(void* user, int part, int thread) {
	struct sweeps* b = user;
	const size_t slot = HEAD_DIM * 2, head = slot * CONTEXT;
	const unsigned char* page[CONTEXT / PAGE_SLOTS];
	for (size_t i = 0; i < CONTEXT / PAGE_SLOTS; i++)
		page[i] = b->buffer + 2 * head * (size_t)part + 2 * i * PAGE_SLOTS * slot;
	int32_t ancestor[ATTENTION_ROWS];
	struct attention_row row[ATTENTION_ROWS];
	for (int i = 0; i < b->rows; i++) {
		ancestor[i] = CONTEXT - ATTENTION_ROWS + i;
		row[i] = (struct attention_row){.page = page,
		                                .value = PAGE_SLOTS * slot,
		                                .slot_bytes = slot,
		                                .type = DTYPE_F16,
		                                .base = CONTEXT - ATTENTION_ROWS,
		                                .n_ancestors = i + 1,
		                                .ancestor = ancestor,
		                                .head_dim = HEAD_DIM,
		                                .group = GROUP,
		                                .scale = 0.125f};
	}
	const struct attention_bundle bundle = attention_bundle_of(row, b->rows);
	float(*most)[MOST_QUERIES] = b->attention[thread].most,
	(*total)[MOST_QUERIES] = b->attention[thread].total;
	float(*mixed)[MOST_QUERIES * HEAD_DIM] = b->attention[thread].mixed;
	const struct attention_sums whole = {most[0], total[0], mixed[0], NULL};
	const struct attention_sums sums = {most[1], total[1], mixed[1], b->attention[thread].mass};
	for (int chunk = 0; chunk < CONTEXT / ATTENTION_CHUNK; chunk++) {
		b->kernels->attention(sums, b->x, GROUP * HEAD_DIM, &bundle, chunk, b->attention[thread].scores);
		b->kernels->attention_join(whole, sums, b->rows * GROUP, HEAD_DIM);
	}
}

/* floor, one: the time to read these bytes, and the time of one row; NaN without one. */
static void report_kernel(struct sweeps* b, const char* kernel, enum dtype type, int rows, double seconds,
                          double floor, double one) {
	cJSON* const entry = bench_json_row(b->list);
	cJSON_AddStringToObject(entry, "kernel", kernel);
	cJSON_AddStringToObject(entry, "dtype", dtype_name(type));
	cJSON_AddNumberToObject(entry, "rows", rows);
	cJSON_AddNumberToObject(entry, "seconds", seconds);
	cJSON_AddNumberToObject(entry, "share_of_floor", floor / seconds);
	cJSON_AddNumberToObject(entry, "over_one_row", seconds / one);
}

static void sweep_products(struct sweeps* b, const char* kernel, const struct tensor* w) {
	const size_t bytes = dtype_row_bytes(w->type, MATRIX_COLS) * MATRIX_ROWS;
	double one = 0;
	b->w = *w;
	for (int i = 0; i < N_ROW_COUNTS; i++) {
		b->rows = row_counts[i];
		const double seconds = best_sweep(b, b->matrices * PARTS, matmul_part) / b->matrices;
		one = i == 0 ? seconds : one;
		report_kernel(b, kernel, w->type, b->rows, seconds, (double)bytes / b->bandwidth, one);
	}
}

/* Times products, and preparing a row; products of interleaved rows, too, where sessions have such rows:
 * draft weights in Q4_K, and stored weights of the types that the kernels ask for. */
static void sweep_type(struct sweeps* b, enum dtype type) {
	const size_t bytes = dtype_row_bytes(type, MATRIX_COLS) * MATRIX_ROWS;
	const size_t prepared = reference_prepared_bytes(type, MATRIX_COLS);
	struct tensor w = {.type = type, .rows = MATRIX_ROWS, .cols = MATRIX_COLS};
	b->w = w;
	b->matrices = strcmp(b->kernels->name, "reference") ? (int)(BUFFER_BYTES / bytes) : 1;
	report_kernel(b, "prepare", type, 1, best_sweep(b, SLICE_ROWS, prepare_part) / SLICE_ROWS, NAN, NAN);
	for (int i = 0; i < SLICE_ROWS; i++)
		b->kernels->prepare(type, b->prepared + (size_t)i * prepared, b->x + i * MATRIX_COLS, MATRIX_COLS);
	sweep_products(b, "matmul", &w);
	w.interleaved = b->kernels->interleaves && b->kernels->interleaves(type);
	if (w.interleaved)
		sweep_products(b, "interleaved", &w);
}

static void column_part(void* user, int part, int thread) {
	struct sweeps* b = user;
	float* out = b->out + (size_t)thread * COLUMN_TILE_LINES * COLUMN_OUTPUTS;
	b->kernels->column_product(out, 0, &b->map, part, column_tile(b->map.outputs, part), &b->kept, 1);
}

/* Times a row's products with the channels that it keeps. The floor is the time to read those alone. */
static void sweep_columns(struct sweeps* b) {
	static const int kept[] = {100, 60, 43, 35, 28}; /* per cent */
	static const float one = 1;
	b->map = (struct column_map){.outputs = (int64_t)COLUMN_MAP_LINES * COLUMN_OUTPUTS,
	                             .channels = MATRIX_COLS,
	                             .runs = b->buffer, /* any bytes do */
	                             .peak = b->peak,
	                             .norm = b->norm};
	b->kept =
	    (struct column_list){.channel = b->channel, .value = b->value, .size = b->size, .step = b->step};
	for (int j = 0; j < MATRIX_COLS; j++)
		column_keys(b->peak + j, b->norm + j, &one, &one, 1);
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		char kernel[32];
		snprintf(kernel, sizeof kernel, "channels, %d %%", kept[i]);
		const float threshold = b->kernels->column_threshold(&b->map, b->x, (float)kept[i] / 100);
		column_finish(&b->kept, b->kernels->column_keep(&b->map, (struct column_range){0, MATRIX_COLS}, b->x,
		                                                threshold, &b->kept));
		const double bytes = (double)COLUMN_MAP_LINES * b->kept.n * COLUMN_LINE;
		const double seconds = best_sweep(b, COLUMN_TILES, column_part);
		report_kernel(b, kernel, DTYPE_Q4_0, 1, seconds, bytes / b->bandwidth, NAN);
	}
}

static void sweep_attention(struct sweeps* b) {
	const size_t pair = (size_t)HEAD_DIM * 2 * CONTEXT * 2;
	const int heads = (int)(BUFFER_BYTES / pair);
	double one = NAN;
	for (b->rows = 1; b->rows <= ATTENTION_ROWS; b->rows *= 2) {
		const double seconds = best_sweep(b, heads, attention_part) / heads;
		one = b->rows == 1 ? seconds : one;
		report_kernel(b, "attention", DTYPE_F16, b->rows, seconds, (double)pair / b->bandwidth, one);
	}
}

static cJSON* sweep_all(struct sweeps* b) {
	cJSON* const out = cJSON_CreateObject();
	b->bandwidth = (double)BUFFER_BYTES / best_sweep(b, READ_PARTS, read_part);
	cJSON_AddStringToObject(out, "isa", b->kernels->name);
	cJSON_AddNumberToObject(out, "threads", pool_threads(b->pool));
	cJSON_AddNumberToObject(out, "bandwidth_measured", b->bandwidth);
	b->list = cJSON_AddArrayToObject(out, "kernels");
	for (int t = 0; t < DTYPE_COUNT; t++)
		sweep_type(b, (enum dtype)t);
	sweep_attention(b);
	sweep_columns(b);
	return out;
}

static void fill_random(struct sweeps* b) {
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

/* The figures; NULL with the error set. */
static cJSON* measure_kernels(struct sweeps* b, const char* isa, int threads, struct error* error) {
	memset(b->sink, 0, sizeof b->sink);
	memset(b->attention, 0, sizeof b->attention);
	b->pool = NULL;
	b->kernels = cpu_kernels_choose(isa, error);
	if (!b->kernels)
		return NULL;
	b->pool = pool_open(threads);
	if (!b->pool || pool_threads(b->pool) > MAX_THREADS) {
		error_set(error, "not enough memory, or too many threads, for the kernels' benchmark");
		return NULL;
	}
	fill_random(b);
	return sweep_all(b);
}

int bench_kernels_main(int argc, char** argv) {
	bool json = false;
	const char* isa = "auto";
	int64_t threads = 0;
	const struct command_option option[] = {
	    FLAG("json", "print one JSON object instead of a table", &json),
	    TEXT("isa", 0, "NAME",
	         "instruction set: auto, reference, avx2, avx-vnni, avx512, neon, dotprod or i8mm (auto)", &isa),
	    COUNT("threads", 0, "N", "CPU threads; 0 takes one for each CPU that the process may use (0)",
	          &threads, 0, 1024),
	};
	struct command_line line = {
	    .name = "bench kernels",
	    .usage = "[--isa NAME] [--threads N] [--json]",
	    .about =
	        "Times matrix products of every weight type with 1 to 64 rows, the preparation of their inputs,\n"
	        "products with draft weights of which some input channels are left out, and attention. Each "
	        "stands\n"
	        "beside the time that reading the bytes it uses takes at the bandwidth measured in the same run\n"
	        "(share_of_floor: 1 is the memory's speed).",
	    OPTIONS(option),
	};
	int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	struct error error = {"out of memory"};
	struct sweeps* b = aligned_alloc(_Alignof(struct sweeps), sizeof *b);
	cJSON* const out = b ? measure_kernels(b, isa, (int)threads, &error) : NULL;
	status = out ? report_print(out, json) : complain(STATUS_FAILED, "%s", error.message);
	if (b && b->pool)
		pool_close(b->pool);
	free(b);
	return status;
}
