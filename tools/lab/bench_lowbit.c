/* Part d of `swiftlet bench swift`: drafts with sub-layers skipped, with a low-bit copy of the weights, and
 * with both.
 *
 * Sessions on one engine decode the same prompts in alternating slices: plainly, skipping, with the copy
 * alone, and with both. Skipping takes a made-up model's planted mask, else what the search comes to in the
 * first turns, which are not counted, and goes on to. Each speed-up is the median of the slices' ratios and
 * stands beside what M, alpha and c promise (SWIFT Eq. 6). Of planted masks, the share of the plain text that
 * each way predicts is counted before in windows of 32 tokens (matchness). Every token is compared with the
 * plain one's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lab/bench_lowbit.h"
#include "tools/program/runtime.h"

enum {
	SLICE = 32,
	REQUEST = 512,
	WINDOW = 32,
	PREDICT = 256,
	WARM_PLANTED = 2,
	WARM_SEARCHED = 8,
	FIRST_PROMPT = 3000
};

/* ---- what each way predicts ----------------------------------------------------------------- */

struct reader {
	struct backend* backend;
	struct cache* cache;
	int last;
	uint8_t want[MAX_ROWS];
	struct result out[MAX_ROWS];
};

static bool read_rows(struct reader* r, const int32_t* token, int n, const struct mask* skip,
                      const struct low_table* low, struct error* error) {
	const struct segment segment = {.cache = r->cache, .base = r->cache->committed, .n = n};
	memset(r->want, WANT_TOKEN, sizeof r->want);
	struct pass pass = pass_over(&segment, token, NULL, r->last, r->want, r->out);
	pass.skip = skip;
	pass.low = low ? &low->sub_layers : NULL;
	pass.low_head = low && low->head;
	pass.head = true;
	return r->backend->run(r->backend, &pass, error);
}

static bool commit_rows(struct reader* r, const int32_t* token, int n, struct error* error) {
	int32_t path[MAX_ROWS];
	if (!read_rows(r, token, n, NULL, NULL, error))
		return false;
	for (int i = 0; i < n; i++)
		path[i] = i;
	r->backend->commit(r->cache, path, n);
	return true;
}

/* text (n): a prompt and what was decoded plainly after it. */
static bool predict(struct lowbit* w, struct reader* r, const int32_t* text, int n, struct error* error) {
	int hits[LOWBIT_WAYS] = {0}, all = 0;
	bool good = commit_rows(r, text, BENCH_PROMPT, error);
	for (int at = BENCH_PROMPT; good && at + WINDOW < n; at += WINDOW, all += WINDOW) {
		for (int k = 0; good && k < LOWBIT_WAYS; k++) {
			const struct lowbit_way* way = &w->how[k];
			good = read_rows(r, text + at, WINDOW, way->skip ? &w->mask : NULL,
			                 way->low ? &w->bench->engine->low.table : NULL, error);
			for (int i = 0; good && i < WINDOW; i++)
				hits[k] += r->out[i].token == text[at + i + 1];
			r->backend->discard(r->cache);
		}
		good = good && commit_rows(r, text + at, WINDOW, error);
	}
	for (int k = 0; k < LOWBIT_WAYS; k++)
		w->how[k].predicted = all > 0 ? (double)hits[k] / all : NAN;
	return good;
}

static bool run_predict(struct lowbit* w, struct error* error) {
	struct swiftlet_options options = w->bench->options;
	struct runner plain = {0};
	struct reader r = {.backend = w->bench->engine->backend,
	                   .last = 2 * w->bench->model->weights.shape.n_blocks};
	double seconds = 0;
	int64_t tokens = 0;
	options.method = SWIFTLET_VANILLA;
	int32_t* text = malloc(sizeof *text * (BENCH_PROMPT + PREDICT));
	bool good = text || error_set(error, "out of memory for the text");
	good = good && runner_open(&plain, w->bench, &options, 0, PREDICT, error);
	good = good && runner_advance(&plain, PREDICT - 1, &seconds, &tokens, error);
	good = good && bench_prompt(w->bench, 0, text, BENCH_PROMPT, error);
	r.cache = good ? r.backend->cache_open(r.backend, options.context, DTYPE_F16, error) : NULL;
	if (r.cache) {
		const int first = plain.n_token < PREDICT ? plain.n_token : PREDICT;
		memcpy(text + BENCH_PROMPT, plain.token, sizeof *text * (size_t)first);
		r.cache->prompt_length = BENCH_PROMPT;
		good = predict(w, &r, text, BENCH_PROMPT + first, error);
		r.backend->cache_close(r.cache);
	}
	runner_close(&plain);
	free(text);
	return good && r.cache;
}

/* ---- decoding in turns ------------------------------------------------------------------------ */

static bool has_copy(const struct lowbit* w) { return w->bench->engine->low.table.bytes > 0; }

static bool open_way(struct lowbit* w, int k, struct error* error) {
	struct swiftlet_options options = w->bench->options;
	struct session* session;
	static const struct mask nothing = {.word = {0}};
	const struct lowbit_way* how = &w->how[k];
	w->way[k].absent = how->low && !has_copy(w);
	options.search = how->skip && !w->planted;
	options.draft_bits = how->low ? w->bits : 0;
	if (w->way[k].absent)
		return true;
	if (!runner_open(&w->way[k].runner, w->bench, &options, FIRST_PROMPT, REQUEST, error))
		return false;
	session = w->way[k].runner.session;
	if (!options.search) {
		session_set_mask(session, how->skip ? &w->mask : &nothing);
		session_expect(session, how->skip ? 0.97 : 1); /* what is planted is known to have it */
	}
	return true;
}

static bool run_decode(struct lowbit* w, struct error* error) {
	enum { ALL = LOWBIT_WAYS + 1 };
	struct swiftlet_options options = w->bench->options;
	options.method = SWIFTLET_VANILLA;
	bool good = runner_open(&w->way[LOWBIT_WAYS].runner, w->bench, &options, FIRST_PROMPT, REQUEST, error);
	for (int k = 0; good && k < LOWBIT_WAYS; k++)
		good = open_way(w, k, error);
	for (int i = 0; good && i < (w->planted ? WARM_PLANTED : WARM_SEARCHED); i++) {
		bench_progress(0, "d. learning costs and acceptance");
		good = ways_turn(w->way, ALL, SLICE, i, 0, error);
	}
	if (good)
		ways_reset(w->way, ALL);
	for (int i = 0; good && i < w->slices; i++) {
		bench_progress((double)i / (double)w->slices, "d. decoding in turns");
		good = ways_turn(w->way, ALL, SLICE, i, i, error);
	}
	if (good)
		ways_judge(w->way, ALL, (int)w->slices, &w->compared, &w->differing);
	for (int k = 0; good && k < LOWBIT_WAYS; k++)
		if (!w->way[k].absent) {
			const struct mask mask = session_mask(w->way[k].runner.session, NULL);
			w->how[k].skipped = mask_count(&mask);
		}
	ways_close(w->way, ALL);
	return good;
}

bool lowbit_measure(struct lowbit* w, const struct bench* bench, int bits, int64_t slices,
                    struct error* error) {
	*w = (struct lowbit){.bench = bench,
	                     .bits = bits,
	                     .slices = slices,
	                     .planted = bench->model->n_planted > 0,
	                     .how = {{.skip = true, .predicted = NAN},
	                             {.low = true, .predicted = NAN},
	                             {.skip = true, .low = true, .predicted = NAN}},
	                     .way = {{.name = "skip"}, {.name = "low-bit"}, {.name = "both"}, {.name = "plain"}}};
	if (w->planted)
		w->mask = bench->model->planted[0];
	return (!w->planted || run_predict(w, error)) && run_decode(w, error);
}

/* ---- telling ---------------------------------------------------------------------------------- */

void lowbit_json(const struct lowbit* w, cJSON* out) {
	const struct low_copy* low = &w->bench->engine->low;
	if (has_copy(w)) {
		cJSON* copy = cJSON_AddObjectToObject(out, "copy");
		cJSON_AddNumberToObject(copy, "bits", low->table.form.bits);
		cJSON_AddStringToObject(copy, "type", dtype_name(low->table.type));
		cJSON_AddNumberToObject(copy, "bytes", (double)low->table.bytes);
		cJSON_AddNumberToObject(copy, "seconds", low->seconds);
		cJSON_AddBoolToObject(copy, "found", low->found);
	}
	cJSON* list = cJSON_AddArrayToObject(out, "ways");
	for (int k = 0; k < LOWBIT_WAYS; k++) {
		const struct way* way = &w->way[k];
		if (way->absent)
			continue;
		cJSON* one = cJSON_CreateObject();
		cJSON_AddStringToObject(one, "name", way->name);
		bench_json_number(one, "predicted", w->how[k].predicted);
		cJSON_AddNumberToObject(one, "skipped", w->how[k].skipped);
		way_json(way, one);
		cJSON_AddItemToArray(list, one);
	}
}

void lowbit_print(const struct lowbit* w) {
	printf("\nd. drafts, in turns with plain decoding, %d slices of %d tokens\n", (int)w->slices, SLICE);
	printf("  %s\n", swiftlet_engine_note(w->bench->engine));
	printf("  %-8s %9s %8s %9s %15s %6s %6s %6s %9s\n", "draft", "predicted", "skipped", "speed-up",
	       "quartiles", "M", "alpha", "c", "expected");
	for (int k = 0; k < LOWBIT_WAYS; k++) {
		const struct way* way = &w->way[k];
		if (!way->absent)
			printf("  %-8s %9.3f %8d %9.2f %8.2f %6.2f %6.2f %6.3f %6.3f %9.2f\n", way->name,
			       w->how[k].predicted, w->how[k].skipped, way->speedup, way->lower, way->upper,
			       way->mean_generated, way->alpha, way->c, way->expected);
	}
}
