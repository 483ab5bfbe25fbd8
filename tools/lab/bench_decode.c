/* `swiftlet bench decode`: plain decoding against the memory's speed. A decode step reads every weight
 * once, so that tokens per second times the bytes a token needs should come near the bandwidth that the
 * same backend measures in the same run; the two are measured in turns. `--rows`: what a pass of more rows
 * costs, which is what verification and matchness pay. `--where`: which part of the model a step's time goes
 * to. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lab/bench.h"
#include "tools/program/runtime.h"

enum {
	REPEATS = 5,
	WARM_UP = 8,
	WHERE_STEPS = 15,
	LEAST_TOKENS = 16,
	MOST_TOKENS = 512,
	DEFAULT_DEPTH = 128,
	DEEPEST = 8192,
	ROW_REPEATS = 5
};

const int bench_rows[ROW_COUNTS] = {1, 2, 4, 8, 16, 32, 64};

struct decode {
	struct bench bench;
	int64_t tokens; /* a repetition; 0: as many as take about a second */
	bool rows, where;
	int depth; /* committed tokens in the middle of what is measured */
	double bytes_per_token, cache_bytes;
	double speed[REPEATS], bandwidth[REPEATS], share[REPEATS];
	double row_seconds[ROW_COUNTS];
};

/* ---- what a token reads ------------------------------------------------------------------- */

static double bytes_of(const struct tensor* t) {
	return tensor_present(t) ? (double)t->rows * (double)dtype_row_bytes(t->type, t->cols) : 0;
}

static double expert_bytes(const struct expert* e) {
	return bytes_of(&e->w_gate) + bytes_of(&e->w_up) + bytes_of(&e->w_down);
}

/* Bytes of weights that a one-row pass reads: all but the embedding, of which it takes a row, and the experts
 * that the row does not choose. */
static double weight_bytes(const struct weight_table* w) {
	double sum = bytes_of(&w->output) + bytes_of(&w->output_norm) + bytes_of(&w->output_norm_bias) +
	             bytes_of(&w->output_bias) + (double)dtype_row_bytes(w->embedding.type, w->embedding.cols);
	for (const struct block_weights* b = w->block; b < w->block + w->shape.n_blocks; b++) {
		for (int i = 0; i < BLOCK_PARTS; i++)
			sum += bytes_of(block_tensor(b, i));
		if (tensor_present(&b->router))
			sum += w->shape.experts_used * expert_bytes(b->expert);
	}
	return sum;
}

static bool wide_cache(const struct bench* bench) {
	const char* type = bench->options.cache_type;
	return type[0] == 'f' ? type[1] == '3' : bench->model->dtype == DTYPE_F32;
}

/* Bytes of keys and values that a row at this depth reads. */
static double cache_bytes(const struct bench* bench, int depth) {
	const struct model_shape* s = &bench->model->weights.shape;
	return 2.0 * (wide_cache(bench) ? 4 : 2) * s->n_blocks * s->kv_heads * s->head_dim * depth;
}

/* ---- passes on the backend itself --------------------------------------------------------- */

/* One exact or prefill pass of n rows in a chain over what is committed. */
static bool run_rows(struct cache* cache, enum pass_kind kind, const int32_t* id, int n, bool head,
                     struct result* out, struct error* error) {
	uint8_t want[MAX_ROWS];
	const struct segment segment = {.cache = cache, .base = cache->committed, .n = n};
	for (int i = 0; i < n; i++)
		want[i] = head ? WANT_TOKEN : WANT_NOTHING;
	struct pass pass = pass_over(&segment, id, NULL, 2 * cache->backend->weights->shape.n_blocks, want, out);
	pass.kind = kind;
	pass.head = head;
	return cache->backend->run(cache->backend, &pass, error);
}

/* Commits tokens until there are `depth` of them. */
static bool fill_cache(const struct bench* bench, struct cache* cache, int depth, struct error* error) {
	struct result out[MAX_ROWS];
	int32_t path[MAX_ROWS], id[MAX_ROWS];
	cache->prompt_length = depth;
	for (uint64_t part = 0; cache->committed < depth; part++) {
		const int left = depth - cache->committed;
		const bool chunk = left >= PREFILL_CHUNK && cache->committed % PREFILL_CHUNK == 0;
		const int n = chunk ? PREFILL_CHUNK : left < PREFILL_CHUNK ? left : PREFILL_CHUNK;
		if (!bench_prompt(bench, part, id, n, error) ||
		    !run_rows(cache, chunk ? PASS_PREFILL : PASS_EXACT, id, n, false, out, error))
			return false;
		for (int i = 0; i < n; i++)
			path[i] = i;
		if (!chunk)
			cache->backend->commit(cache, path, n);
		bench_progress((double)cache->committed / depth, "filling the context");
	}
	return true;
}

static struct cache* open_cache(const struct bench* bench, int capacity, struct error* error) {
	struct backend* backend = bench->engine->backend;
	return backend->cache_open(backend, capacity, wide_cache(bench) ? DTYPE_F32 : DTYPE_F16, error);
}

static bool time_rows(struct cache* cache, const int32_t* id, int n, double* seconds, struct error* error) {
	struct result out[MAX_ROWS];
	const double start = seconds_now();
	if (!run_rows(cache, PASS_EXACT, id, n, true, out, error))
		return false;
	*seconds = seconds_now() - start;
	cache->backend->discard(cache);
	return true;
}

bool bench_measure_rows(const struct bench* bench, int committed, int repeats, double seconds[ROW_COUNTS],
                        struct error* error) {
	enum { MOST = 16 };
	double sample[ROW_COUNTS][MOST], ignored;
	int32_t id[MAX_ROWS];
	const int n_repeats = repeats < MOST ? repeats : MOST;
	struct cache* cache = open_cache(bench, committed + 1, error);
	bool good = cache && fill_cache(bench, cache, committed, error) &&
	            bench_prompt(bench, 99, id, 64, error) && time_rows(cache, id, 1, &ignored, error);
	for (int k = 0; good && k < n_repeats * ROW_COUNTS; k++) {
		const int i = k % ROW_COUNTS;
		bench_progress((double)k / (n_repeats * ROW_COUNTS), "passes of %d rows", bench_rows[i]);
		good = time_rows(cache, id, bench_rows[i], &sample[i][k / ROW_COUNTS], error);
	}
	for (int i = 0; good && i < ROW_COUNTS; i++)
		seconds[i] = bench_median(sample[i], n_repeats);
	if (cache)
		cache->backend->cache_close(cache);
	return good;
}

/* ---- decoding ----------------------------------------------------------------------------- */

/* Greedy tokens one by one, the next from the last's result; commits them. */
static bool decode(struct cache* cache, int32_t* token, int n, double* seconds, struct error* error) {
	static const int32_t path[1] = {0};
	struct result out[1];
	const double start = seconds_now();
	for (int i = 0; i < n; i++) {
		if (!run_rows(cache, PASS_EXACT, token, 1, true, out, error))
			return false;
		cache->backend->commit(cache, path, 1);
		*token = out->token;
	}
	*seconds = seconds_now() - start;
	return true;
}

static int tokens_a_repetition(const struct decode* d, double seconds) {
	if (d->tokens > 0)
		return (int)d->tokens;
	const double n = seconds > 0 ? 1 / seconds : LEAST_TOKENS;
	return n < LEAST_TOKENS ? LEAST_TOKENS : n > MOST_TOKENS ? MOST_TOKENS : (int)n;
}

static bool measure(struct decode* d, struct error* error) {
	const struct bench* bench = &d->bench;
	struct backend* backend = bench->engine->backend;
	const int most = d->tokens > 0 ? (int)d->tokens : MOST_TOKENS;
	struct cache* cache = open_cache(bench, d->depth + most + WARM_UP, error);
	int32_t token;
	double seconds = 0;
	bool good = cache && bench_prompt(bench, 7, &token, 1, error) &&
	            fill_cache(bench, cache, d->depth, error) && decode(cache, &token, WARM_UP, &seconds, error);
	const int n = tokens_a_repetition(d, seconds / WARM_UP),
	          before = d->depth - n / 2 > 1 ? d->depth - n / 2 : 1;
	d->cache_bytes = cache_bytes(bench, d->depth);
	d->bytes_per_token = weight_bytes(&bench->model->weights) + d->cache_bytes;
	const double certified = (double)bench->engine->backend->certified_bytes; /* read in the head's place */
	if (certified > 0)
		d->bytes_per_token += certified - bytes_of(&bench->model->weights.output);
	for (int i = 0; good && i < REPEATS; i++) {
		bench_progress((double)i / REPEATS, "decoding");
		d->bandwidth[i] = backend->bandwidth(backend);
		backend->truncate(cache, before);
		good = decode(cache, &token, n, &seconds, error);
		d->speed[i] = n / seconds;
		d->share[i] = d->speed[i] * d->bytes_per_token / d->bandwidth[i];
	}
	if (cache)
		backend->cache_close(cache);
	return good && (!d->rows || bench_measure_rows(bench, d->depth, ROW_REPEATS, d->row_seconds, error));
}

/* ---- where the time goes ------------------------------------------------------------------ */

static const char* const part_name[PASS_PARTS + 1] = {
    "input",      "norms",
    "Q, K, V",    "rotation, cache",
    "attention",  "attention's output",
    "joins",      "gate, up",
    "activation", "down",
    "experts",    "head",
    "result",     "host",
};

/* Seconds of a step by part, and last what is outside of passes' parts. Each is the least of its samples:
 * what else runs on the machine falls into whichever part is at work. */
static bool time_parts(struct cache* cache, int depth, int32_t* token, double seconds[PASS_PARTS + 1],
                       struct error* error) {
	double sample[PASS_PARTS + 1][WHERE_STEPS], parts[PASS_PARTS], all = 0;
	struct backend* backend = cache->backend;
	bool good = true;
	for (int k = 0; good && k < WHERE_STEPS; k++) {
		memset(parts, 0, sizeof parts);
		backend->truncate(cache, depth);
		backend->part_seconds = parts;
		good = decode(cache, token, 1, &all, error);
		backend->part_seconds = NULL;
		for (int i = 0; i < PASS_PARTS; i++) {
			sample[i][k] = parts[i];
			all -= parts[i];
		}
		sample[PASS_PARTS][k] = all;
	}
	for (int i = 0; good && i <= PASS_PARTS; i++) {
		seconds[i] = sample[i][0];
		for (int k = 1; k < WHERE_STEPS; k++)
			seconds[i] = fmin(seconds[i], sample[i][k]);
	}
	return good;
}

static int tell_where(const struct bench* bench, const int depth[], int n,
                      const double seconds[][PASS_PARTS + 1]) {
	if (bench->json) {
		cJSON *out = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(out, "where");
		bench_describe(bench, out);
		for (int d = 0; d < n; d++) {
			cJSON* one = cJSON_CreateObject();
			cJSON_AddNumberToObject(one, "context", depth[d]);
			for (int i = 0; i <= PASS_PARTS; i++)
				bench_json_number(one, part_name[i], seconds[d][i]);
			cJSON_AddItemToArray(list, one);
		}
		return bench_print_json(out);
	}
	printf("%s on %s\n  microseconds of a step, and their share, by tokens in the cache\n  %-20s",
	       swiftlet_model_name(bench->model), swiftlet_engine_name(bench->engine), "");
	for (int d = 0; d < n; d++)
		printf(" %9d       ", depth[d]);
	for (int i = 0; i <= PASS_PARTS; i++) {
		printf("\n  %-20s", part_name[i]);
		for (int d = 0; d < n; d++) {
			double sum = 0;
			for (int j = 0; j <= PASS_PARTS; j++)
				sum += seconds[d][j];
			printf(" %9.0f %5.1f%%", seconds[d][i] * 1e6, 100 * seconds[d][i] / sum);
		}
	}
	printf("\n");
	return STATUS_DONE;
}

/* The longest context first: the shorter ones are its beginnings. */
static int where(struct decode* d) {
	struct error error = {{0}};
	const int depth[] = {DEEPEST, 2048, DEFAULT_DEPTH};
	const int n = sizeof depth / sizeof *depth;
	int first = 0;
	double seconds[sizeof depth / sizeof *depth][PASS_PARTS + 1];
	int32_t token;
	while (first < n - 1 && depth[first] > d->depth)
		first++;
	if (!d->bench.engine->backend->times_parts)
		return complain(STATUS_USAGE, "--where: this backend does not time the parts of a pass");
	struct cache* cache = open_cache(&d->bench, d->depth + WARM_UP, &error);
	bool good = cache && bench_prompt(&d->bench, 7, &token, 1, &error) &&
	            fill_cache(&d->bench, cache, depth[first], &error);
	for (int i = first; good && i < n; i++)
		good = time_parts(cache, depth[i], &token, seconds[i], &error);
	if (cache)
		cache->backend->cache_close(cache);
	bench_progress_end();
	return good ? tell_where(&d->bench, depth + first, n - first,
	                         (const double(*)[PASS_PARTS + 1])(seconds + first))
	            : complain(STATUS_FAILED, "%s", error.message);
}

/* ---- telling ------------------------------------------------------------------------------ */

static int tell(struct decode* d) {
	const struct bench* bench = &d->bench;
	const double speed = bench_median(d->speed, REPEATS), bandwidth = bench_median(d->bandwidth, REPEATS);
	const double share = bench_median(d->share, REPEATS);
	if (bench->json) {
		cJSON* out = cJSON_CreateObject();
		bench_describe(bench, out);
		cJSON_AddNumberToObject(out, "context", d->depth);
		bench_json_number(out, "tokens_per_second", speed);
		bench_json_number(out, "bytes_per_token", d->bytes_per_token);
		bench_json_number(out, "cache_bytes_per_token", d->cache_bytes);
		bench_json_number(out, "bandwidth_measured", bandwidth);
		bench_json_number(out, "share_of_bandwidth", share);
		cJSON_AddNumberToObject(out, "repetitions", REPEATS);
		if (d->rows)
			bench_json_rows(out, d->row_seconds);
		return bench_print_json(out);
	}
	const struct backend* backend = bench->engine->backend;
	printf("%s on %s, %d threads\n", swiftlet_model_name(bench->model), swiftlet_engine_name(bench->engine),
	       backend->threads(backend));
	printf("  context            %10d tokens\n", d->depth);
	printf("  speed              %10.2f tokens/s (median of %d; %.2f to %.2f)\n", speed, REPEATS, d->speed[0],
	       d->speed[REPEATS - 1]);
	printf("  bytes a token      %10.3f GB, of which %.3f cache\n", d->bytes_per_token / 1e9,
	       d->cache_bytes / 1e9);
	printf("  bandwidth          %10.2f GB/s measured in turns with it\n", bandwidth / 1e9);
	printf("  share of bandwidth %10.2f\n", share);
	if (d->rows)
		bench_print_rows(d->row_seconds);
	return STATUS_DONE;
}

static int run(struct decode* d, const char* model, struct swiftlet_options* options, bool json) {
	struct error error = {{0}};
	/* --context is the depth to measure at; the engine is sized for it */
	d->depth = options->context > 0 ? options->context : d->where ? DEEPEST : DEFAULT_DEPTH;
	options->context = d->depth + (d->tokens > 0 ? (int)d->tokens : MOST_TOKENS) + WARM_UP;
	int status = bench_open(&d->bench, model, options, json);
	if (status == OPTIONS_GO_ON && d->where) {
		status = where(d);
	} else if (status == OPTIONS_GO_ON) {
		const bool good = measure(d, &error);
		bench_progress_end();
		status = good ? tell(d) : complain(STATUS_FAILED, "%s", error.message);
	}
	bench_close(&d->bench);
	return status;
}

int bench_decode_main(int argc, char** argv) {
	struct decode d = {.tokens = 0};
	struct swiftlet_options options;
	const char* model_option = NULL;
	bool json = false;
	const struct option option[] = {
	    {"model", 'm', "MODEL", "a model, or synth:SHAPE (builtin)", OPTION_TEXT, &model_option, 0, 0},
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0},
	    {"tokens", 'n', "N", "tokens a repetition (as many as take a second)", OPTION_COUNT, &d.tokens, 1,
	     4096},
	    {"rows", 0, NULL, "also time passes of 1 to 64 rows", OPTION_FLAG, &d.rows, 0, 0},
	    {"where", 0, NULL, "time the parts of a step instead, at 128, 2048 and 8192 tokens (CPU)",
	     OPTION_FLAG, &d.where, 0, 0},
	};
	struct command_line line = {
	    .name = "bench decode",
	    .usage = "[MODEL|-m MODEL] [--context N] [--rows|--where] [--json] [options]",
	    .about =
	        "Plain decoding, one row a pass, in turns with a measurement of the memory's bandwidth (reads\n"
	        "on a CPU, a copy on a GPU). --context is the number of tokens in the cache (default 128).\n"
	        "A token reads every weight but the embedding, and the keys and values before it.",
	    .examples = "  swiftlet bench decode -m synth:tinyllama-1.1b,dtype=f16 --rows\n"
	                "  swiftlet bench decode model.gguf --context 4096 --json",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &options,
	    .max_words = 1,
	};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	const char* const model = options_model(&line, model_option);
	return model ? run(&d, model, &options, json) : STATUS_USAGE;
}
