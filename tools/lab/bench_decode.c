/* `swiftlet bench decode`: plain decoding compared with the memory's speed. A decode step reads every weight
 * once, so tokens per second times the bytes of a token should come near the bandwidth that the same backend
 * reaches. The two are measured in turns in one run. `--rows` measures the cost of passes of more rows, which
 * verification and matchness pay. */
#include "kernels/attention_cost.h"
#include "tools/lab/bench.h"
#include "tools/lab/state_texts.h"

enum {
	REPEATS = 5,
	WARM_UP = 8,
	LEAST_TOKENS = 16,
	MOST_TOKENS = 512,
	OWN_TEXT = 64, /* rows of the widest pass */
	DEFAULT_DEPTH = 128
};

struct decode {
	struct bench_part part;
	int64_t tokens; /* of one repetition; 0: as many as take about a second */
	bool rows;
	int depth; /* committed tokens in the middle of the measurement */
};

/* ---- what a token reads ------------------------------------------------------------------- */

static size_t expert_bytes(const struct expert* e) {
	return tensor_bytes(&e->w_gate) + tensor_bytes(&e->w_up) + tensor_bytes(&e->w_down);
}

/* Bytes of weights that a one-row pass reads: all but the embeddings, of which it reads one row each, and the
 * experts that the row does not choose. */
static double weight_bytes(const struct weight_table* w) {
	size_t sum = tensor_bytes(&w->output) + tensor_bytes(&w->output_bias) + tensor_bytes(&w->output_norm) +
	             tensor_bytes(&w->output_norm_bias) + dtype_row_bytes(w->embedding.type, w->embedding.cols);
	if (w->shape.token_input)
		sum += dtype_row_bytes(w->input_embedding.type, w->input_embedding.cols) +
		       tensor_bytes(&w->input_projection) + tensor_bytes(&w->input_projection_norm);
	for (const struct block_weights* b = w->block; b < w->block + w->shape.n_blocks; b++) {
		for (int i = 0; i < BLOCK_PARTS; i++)
			sum += tensor_bytes(block_tensor(b, i));
		if (tensor_present(&b->router))
			sum += (size_t)w->shape.experts_used * expert_bytes(b->expert);
	}
	return (double)sum;
}

/* Bytes of the KV cache that a row at this depth reads. */
static double cache_bytes(const struct cache* cache, int depth) {
	const struct model_shape* s = &cache->backend->weights->shape;
	return (double)recurrent_bytes(s) + attention_bytes(s, cache->type, depth, depth);
}

/* ---- passes on the backend itself --------------------------------------------------------- */

/* Runs one exact or prefill pass of n rows in a chain after the committed tokens. */
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
static bool fill_cache(const struct runtime* bench, struct cache* cache, int depth, struct error* error) {
	struct result out[MAX_ROWS];
	int32_t id[MAX_ROWS];
	cache->prompt_length = depth;
	for (uint64_t part = 0; cache->committed < depth; part++) {
		const int left = depth - cache->committed;
		const bool chunk = left >= PREFILL_CHUNK && cache->committed % PREFILL_CHUNK == 0;
		const int n = least(left, PREFILL_CHUNK);
		if (!bench_prompt(bench, part, id, n, error) ||
		    !run_rows(cache, chunk ? PASS_PREFILL : PASS_EXACT, id, n, false, out, error))
			return false;
		if (!chunk)
			cache->backend->commit(cache, state_text_rows, n);
		progress_show((double)cache->committed / depth, "filling the context");
	}
	return true;
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

/* Decodes greedily, each token from the last one's result, and commits the tokens. */
static bool decode_tokens(struct cache* cache, int32_t* token, int n, double* seconds, struct error* error) {
	struct result out[1];
	const double start = seconds_now();
	for (int i = 0; i < n; i++) {
		if (!run_rows(cache, PASS_EXACT, token, 1, true, out, error))
			return false;
		cache->backend->commit(cache, state_text_rows, 1);
		*token = out->token;
	}
	*seconds = seconds_now() - start;
	return true;
}

/* The model's own continuation. It is less sure of any other text than of a draft's, and a screened head then
 * takes longer. */
static bool own_text(const struct runtime* bench, struct cache* cache, int32_t* id, int n,
                     struct error* error) {
	const int before = cache->committed;
	double ignored;
	int32_t token;
	bool good = bench_prompt(bench, 99, &token, 1, error);
	for (int i = 0; good && i < n; i++) {
		id[i] = token;
		good = decode_tokens(cache, &token, 1, &ignored, error);
	}
	cache->backend->truncate(cache, before);
	return good;
}

bool bench_measure_rows(const struct runtime* bench, int committed, int repeats, cJSON* out,
                        struct error* error) {
	/* After a pass of 64 rows, single rows take 5.4, 5.0, 4.5, 3.8, 3.7, 3.5 milliseconds (SmolLM2): a small
	 * model lies mostly in the last level's cache, and has to come back. */
	enum { MOST = 16, COUNTS = 7, RECOVERY = 8 };
	static const int count[COUNTS] = {1, 2, 4, 8, 16, 32, 64};
	double sample[COUNTS][MOST], seconds[COUNTS], ignored;
	int32_t id[MAX_ROWS];
	const int n_repeats = least(repeats, MOST);
	struct cache* cache = text_cache_open(bench, committed + OWN_TEXT, error);
	bool good = cache && fill_cache(bench, cache, committed, error) &&
	            own_text(bench, cache, id, OWN_TEXT, error) && time_rows(cache, id, 1, &ignored, error);
	for (int k = 0; good && k < n_repeats * COUNTS; k++) {
		progress_show((double)k / (n_repeats * COUNTS), "passes of %d rows", count[k % COUNTS]);
		for (int i = 0; good && k % COUNTS == 0 && i < RECOVERY; i++)
			good = time_rows(cache, id, 1, &ignored, error);
		good = good && time_rows(cache, id, count[k % COUNTS], &sample[k % COUNTS][k / COUNTS], error);
	}
	cJSON* const list = good ? cJSON_AddArrayToObject(out, "rows") : NULL;
	for (int i = 0; good && i < COUNTS; i++) {
		cJSON* const row = bench_json_row(list);
		seconds[i] = bench_median(sample[i], n_repeats);
		cJSON_AddNumberToObject(row, "rows", count[i]);
		cJSON_AddNumberToObject(row, "seconds", seconds[i]);
		cJSON_AddNumberToObject(row, "v", seconds[i] / seconds[0]);
	}
	if (cache)
		cache->backend->cache_close(cache);
	return good;
}

/* ---- decoding ----------------------------------------------------------------------------- */

static int tokens_a_repetition(const struct decode* d, double seconds) {
	if (d->tokens > 0)
		return (int)d->tokens;
	const double n = seconds > 0 ? 1 / seconds : LEAST_TOKENS;
	return n < LEAST_TOKENS ? LEAST_TOKENS : n > MOST_TOKENS ? MOST_TOKENS : (int)n;
}

/* In turns with the bandwidth. */
static bool measure_speed(const struct decode* d, struct cache* cache, cJSON* out, struct error* error) {
	const struct runtime* bench = &d->part.bench;
	struct backend* backend = bench->engine->backend;
	double seconds = 0, speed[REPEATS], bandwidth[REPEATS], share[REPEATS];
	int32_t token;
	bool good = bench_prompt(bench, 7, &token, 1, error) && fill_cache(bench, cache, d->depth, error) &&
	            decode_tokens(cache, &token, WARM_UP, &seconds, error);
	const int n = tokens_a_repetition(d, seconds / WARM_UP),
	          before = d->depth - n / 2 > 1 ? d->depth - n / 2 : 1;
	const double kept = cache_bytes(cache, d->depth), screened = (double)backend->screened_bytes;
	double bytes = weight_bytes(&bench->model->weights) + kept;
	if (screened > 0) /* read in the head's place */
		bytes += screened - (double)tensor_bytes(&bench->model->weights.output);
	for (int i = 0; good && i < REPEATS; i++) {
		progress_show((double)i / REPEATS, "decoding");
		bandwidth[i] = backend->bandwidth(backend);
		backend->truncate(cache, before);
		good = decode_tokens(cache, &token, n, &seconds, error);
		speed[i] = n / seconds;
		share[i] = speed[i] * bytes / bandwidth[i];
	}
	if (!good)
		return false;
	cJSON_AddNumberToObject(out, "context", d->depth);
	cJSON_AddNumberToObject(out, "tokens_per_second", bench_median(speed, REPEATS));
	cJSON_AddNumberToObject(out, "bytes_per_token", bytes);
	cJSON_AddNumberToObject(out, "cache_bytes_per_token", kept);
	cJSON_AddNumberToObject(out, "bandwidth_measured", bench_median(bandwidth, REPEATS));
	cJSON_AddNumberToObject(out, "share_of_bandwidth", bench_median(share, REPEATS));
	return true;
}

/* ---- the command -------------------------------------------------------------------------- */

static bool measure_decode(struct bench_part* part, cJSON* out, struct error* error) {
	const struct decode* d = (struct decode*)part;
	struct cache* cache = text_cache_open(&part->bench, part->bench.options.cache.context, error);
	const bool good = cache && measure_speed(d, cache, out, error);
	if (cache)
		cache->backend->cache_close(cache);
	return good && (!d->rows || bench_measure_rows(&part->bench, d->depth, REPEATS, out, error));
}

/* --context is the depth to measure at, and the engine is sized for it. */
static int check_decode_options(struct bench_part* part) {
	struct decode* d = (struct decode*)part;
	struct swiftlet_options* options = &part->bench.options;
	d->depth = options->cache.context > 0 ? options->cache.context : DEFAULT_DEPTH;
	const int further = d->tokens > 0 ? (int)d->tokens : MOST_TOKENS;
	options->cache.context = d->depth + (further > OWN_TEXT ? further : OWN_TEXT) + WARM_UP;
	return OPTIONS_GO_ON;
}

int bench_decode_main(int argc, char** argv) {
	struct decode d = {.part = {.prepare = check_decode_options, .measure = measure_decode}};
	const struct command_option option[] = {
	    BENCH_OPTIONS(d.part),
	    COUNT("tokens", 'n', "N", "tokens of a repetition (as many as take a second)", &d.tokens, 1, 4096),
	    FLAG("rows", "also time passes of 1 to 64 rows", &d.rows),
	};
	struct command_line line = {
	    .name = "bench decode",
	    .usage = "MODEL [--context N] [--rows] [options]",
	    .about =
	        "Measures plain decoding, one row a pass, in turns with the memory's bandwidth (reads on a CPU,\n"
	        "a copy on a GPU). Prints medians of five. --context is the number of tokens in the KV cache\n"
	        "(128). A token reads every weight except the embeddings, and the KV cache.",
	    .examples = "  swiftlet bench decode -m synth:tinyllama-1.1b,dtype=f16 --rows\n"
	                "  swiftlet bench decode model.gguf --context 4096 --json",
	    OPTIONS(option),
	};
	return bench_part_main(&d.part, &line, argc, argv);
}
