/* `swiftlet bench lowbit`: drafts with a low-bit copy of the weights beside drafts with sub-layers skipped.
 *
 * Sessions on one engine decode the same prompts in alternating slices: plainly, with a made-up model's
 * planted sub-layers skipped, with the low-bit copy, and with both. Each speed-up is the median of the
 * slices' ratios and stands beside what M, alpha and c promise (SWIFT Eq. 6). Before that, the share of the
 * plain text that each predicts is counted in windows of 32 tokens (matchness). Every token is compared with
 * the plain one's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/runtime.h"

enum { SLICE = 32, MOST_SLICES = 64, REQUEST = 512, WINDOW = 32, WAYS = 3, FIRST_PROMPT = 3000 };

struct way {
	const char* name;
	bool skip, low;
	struct runner runner;
	double predicted, ratio[MOST_SLICES];
	double speedup, lower, upper, mean_generated, alpha, c, expected;
};

struct lowbit {
	struct bench bench;
	struct mask mask; /* what was planted */
	struct way way[WAYS];
	struct runner plain;
	int64_t slices, predict, compared, differing;
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
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .skip = skip,
	                          .low = low ? &low->sub_layers : NULL,
	                          .low_head = low && low->head,
	                          .last = r->last,
	                          .head = true,
	                          .tap = -1,
	                          .want = r->want,
	                          .out = r->out};
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
	int hits[WAYS] = {0}, all = 0;
	bool good = commit_rows(r, text, BENCH_PROMPT, error);
	for (int at = BENCH_PROMPT; good && at + WINDOW < n; at += WINDOW, all += WINDOW) {
		for (int k = 0; good && k < WAYS; k++) {
			const struct way* way = &w->way[k];
			good = read_rows(r, text + at, WINDOW, way->skip ? &w->mask : NULL,
			                 way->low ? &w->bench.engine->low.table : NULL, error);
			for (int i = 0; good && i < WINDOW; i++)
				hits[k] += r->out[i].token == text[at + i + 1];
			r->backend->discard(r->cache);
		}
		good = good && commit_rows(r, text + at, WINDOW, error);
	}
	for (int k = 0; k < WAYS; k++)
		w->way[k].predicted = all > 0 ? (double)hits[k] / all : NAN;
	return good;
}

static bool run_predict(struct lowbit* w, struct error* error) {
	struct swiftlet_options options = w->bench.options;
	struct runner plain = {0};
	struct reader r = {.backend = w->bench.engine->backend,
	                   .last = 2 * w->bench.model->weights.shape.n_blocks};
	double seconds = 0;
	int64_t tokens = 0;
	options.method = SWIFTLET_VANILLA;
	int32_t* text = malloc(sizeof *text * (size_t)(BENCH_PROMPT + w->predict));
	bool good = text || error_set(error, "out of memory for the text");
	good = good && runner_open(&plain, &w->bench, &options, 0, (int)w->predict, error);
	good = good && runner_advance(&plain, (int)w->predict - 1, &seconds, &tokens, error);
	good = good && bench_prompt(&w->bench, 0, text, BENCH_PROMPT, error);
	r.cache = good ? r.backend->cache_open(r.backend, options.context, DTYPE_F16, error) : NULL;
	if (r.cache) {
		const int first = plain.n_token < (int)w->predict ? plain.n_token : (int)w->predict;
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

static bool is_run(const struct lowbit* w, const struct way* way) {
	return !way->skip || mask_count(&w->mask) > 0;
}

static bool open_way(struct lowbit* w, struct way* way, struct error* error) {
	struct swiftlet_options options = w->bench.options;
	static const struct mask nothing = {{0}};
	options.search = false;
	if (!way->low)
		options.draft_bits = 0;
	if (!runner_open(&way->runner, &w->bench, &options, FIRST_PROMPT, REQUEST, error))
		return false;
	session_set_mask(way->runner.session, way->skip ? &w->mask : &nothing);
	session_expect(way->runner.session, way->predicted);
	return true;
}

/* A slice of each, the one that begins in turns; their ratios to the plain one's time a token. */
static bool run_slice(struct lowbit* w, int turn, int at, struct error* error) {
	double each[WAYS + 1] = {0};
	for (int k = 0; k <= WAYS; k++) {
		const int who = (turn + k) % (WAYS + 1);
		struct runner* r = who < WAYS ? &w->way[who].runner : &w->plain;
		double seconds = 0;
		int64_t tokens = 0;
		if (who < WAYS && !is_run(w, &w->way[who]))
			continue;
		if (!runner_advance(r, SLICE, &seconds, &tokens, error))
			return false;
		each[who] = seconds / (double)tokens;
	}
	for (int k = 0; k < WAYS; k++)
		w->way[k].ratio[at] = each[k] > 0 ? each[WAYS] / each[k] : NAN;
	return true;
}

static void figures(struct lowbit* w, struct way* way) {
	const struct runner* r = &way->runner;
	way->mean_generated = (double)r->round_tokens / (double)r->rounds;
	way->alpha = (double)r->accepted / (double)r->draft_steps;
	way->c = r->pass_seconds[WORK_DRAFT] / (double)r->draft_steps /
	         (runner_pass_seconds(&w->plain) / (double)w->plain.tokens);
	const double m = way->mean_generated, a = way->alpha;
	way->expected = a > 0 ? m * a / ((m - 1) * way->c + a) : NAN; /* SWIFT Eq. 6 */
	const int n = (int)w->slices;
	way->speedup = bench_median(way->ratio, n); /* sorts */
	way->lower = way->ratio[n / 4];
	way->upper = way->ratio[n - 1 - n / 4];
	w->compared += runner_compare(r, &w->plain, &w->differing);
}

static bool run_decode(struct lowbit* w, struct error* error) {
	struct swiftlet_options options = w->bench.options;
	options.method = SWIFTLET_VANILLA;
	bool good = runner_open(&w->plain, &w->bench, &options, FIRST_PROMPT, REQUEST, error);
	for (int k = 0; good && k < WAYS; k++)
		good = open_way(w, &w->way[k], error);
	/* two turns, uncounted, in which costs and acceptance are learned */
	for (int i = 0; good && i < 2; i++)
		good = run_slice(w, i, 0, error);
	for (int k = 0; good && k <= WAYS; k++)
		runner_reset(k < WAYS ? &w->way[k].runner : &w->plain);
	for (int i = 0; good && i < w->slices; i++) {
		bench_progress((double)i / (double)w->slices, "decoding in turns");
		good = run_slice(w, i, i, error);
	}
	for (int k = 0; good && k < WAYS; k++)
		if (is_run(w, &w->way[k]))
			figures(w, &w->way[k]);
	for (int k = 0; k < WAYS; k++)
		runner_close(&w->way[k].runner);
	runner_close(&w->plain);
	return good;
}

/* ---- telling ---------------------------------------------------------------------------------- */

static int tell_json(const struct lowbit* w) {
	const struct low_copy* low = &w->bench.engine->low;
	cJSON* out = cJSON_CreateObject();
	bench_describe(&w->bench, out);
	cJSON_AddNumberToObject(out, "bits", low->table.bits);
	cJSON_AddStringToObject(out, "type", dtype_name(low->table.type));
	cJSON_AddNumberToObject(out, "copy_bytes", (double)low->table.bytes);
	cJSON_AddNumberToObject(out, "copy_seconds", low->seconds);
	cJSON_AddBoolToObject(out, "copy_found", !low->memory);
	cJSON* list = cJSON_AddArrayToObject(out, "ways");
	for (int k = 0; k < WAYS; k++) {
		const struct way* way = &w->way[k];
		if (!is_run(w, way))
			continue;
		cJSON* one = cJSON_CreateObject();
		cJSON_AddStringToObject(one, "name", way->name);
		bench_json_number(one, "predicted", way->predicted);
		bench_json_number(one, "speedup", way->speedup);
		bench_json_number(one, "speedup_lower_quartile", way->lower);
		bench_json_number(one, "speedup_upper_quartile", way->upper);
		bench_json_number(one, "M", way->mean_generated);
		bench_json_number(one, "alpha", way->alpha);
		bench_json_number(one, "c", way->c);
		bench_json_number(one, "expected_speedup", way->expected);
		cJSON_AddItemToArray(list, one);
	}
	cJSON_AddNumberToObject(out, "tokens_compared", (double)w->compared);
	cJSON_AddNumberToObject(out, "tokens_differing", (double)w->differing);
	return bench_print_json(out);
}

static int tell(const struct lowbit* w) {
	const struct backend* backend = w->bench.engine->backend;
	printf("%s on %s, %d threads\n%s\n\n", swiftlet_model_name(w->bench.model),
	       swiftlet_engine_name(w->bench.engine), backend->threads(backend),
	       swiftlet_engine_note(w->bench.engine));
	printf("%-14s %9s %9s %15s %6s %6s %6s %9s\n", "draft", "predicted", "speed-up", "quartiles", "M",
	       "alpha", "c", "expected");
	for (int k = 0; k < WAYS; k++) {
		const struct way* way = &w->way[k];
		if (is_run(w, way))
			printf("%-14s %9.3f %9.2f %8.2f %6.2f %6.2f %6.3f %6.3f %9.2f\n", way->name, way->predicted,
			       way->speedup, way->lower, way->upper, way->mean_generated, way->alpha, way->c,
			       way->expected);
	}
	printf("\n%lld tokens compared with plain decoding's, %lld differ\n", (long long)w->compared,
	       (long long)w->differing);
	return STATUS_DONE;
}

/* ---- the command -------------------------------------------------------------------------------- */

static int run(struct lowbit* w, const char* model, struct swiftlet_options* options, bool json) {
	struct error error = {{0}};
	if (options->context == 0)
		options->context = 1024;
	if (options->draft_bits == 0)
		options->draft_bits = 4;
	if (options->context < BENCH_PROMPT + w->predict)
		return complain(STATUS_USAGE, "bench lowbit: --context %d, expected at least %d", options->context,
		                (int)(BENCH_PROMPT + w->predict));
	int status = bench_open(&w->bench, model, options, json);
	if (status == OPTIONS_GO_ON && w->bench.engine->low.table.bytes == 0)
		status = complain(STATUS_FAILED, "bench lowbit: %s", swiftlet_engine_note(w->bench.engine));
	if (status == OPTIONS_GO_ON) {
		if (w->bench.model->n_planted > 0)
			w->mask = w->bench.model->planted[0];
		const bool good = run_predict(w, &error) && run_decode(w, &error);
		bench_progress_end();
		status = !good ? complain(STATUS_FAILED, "%s", error.message) : json ? tell_json(w) : tell(w);
	}
	bench_close(&w->bench);
	if (status == STATUS_DONE && w->differing > 0)
		return complain(STATUS_FAILED, "%lld tokens differ from plain decoding's", (long long)w->differing);
	return status;
}

int bench_lowbit_main(int argc, char** argv) {
	struct lowbit w = {.slices = 16,
	                   .predict = 512,
	                   .way = {{.name = "skip", .skip = true},
	                           {.name = "low-bit", .low = true},
	                           {.name = "both", .skip = true, .low = true}}};
	struct swiftlet_options options;
	const char* model_option = NULL;
	bool json = false;
	const struct option option[] = {
	    {"model", 'm', "MODEL", "a model, or synth:SHAPE (builtin)", OPTION_TEXT, &model_option, 0, 0},
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0},
	    {"slices", 0, "N", "turns of 32 tokens each (16)", OPTION_COUNT, &w.slices, 1, MOST_SLICES},
	    {"predict", 0, "N", "tokens of plain text that drafts are to predict (512)", OPTION_COUNT, &w.predict,
	     2 * WINDOW, 1 << 16},
	};
	struct command_line line = {
	    .name = "bench lowbit",
	    .usage = "[MODEL|-m MODEL] [--draft-bits 4|3|8] [--json] [options]",
	    .about =
	        "Drafting with a low-bit copy of the weights (--draft-bits, here 4 by default), with a made-up\n"
	        "model's planted layers skipped, and with both, in turns with plain decoding: the share of the\n"
	        "plain text that a draft predicts, speed-up, M (tokens a round), alpha (share of draft steps\n"
	        "accepted), c (a draft step over a full pass), and the speed-up that these promise. Every token\n"
	        "is compared with plain decoding's; where one differs the exit status is 1.",
	    .examples = "  swiftlet bench lowbit -m synth:tinyllama-1.1b,dtype=f16,plant=0.45\n"
	                "  swiftlet bench lowbit -m MODEL --draft-bits 3 --draft-cache off --json",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &options,
	    .max_words = 1,
	};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	const char* const model = options_model(&line, model_option);
	return model ? run(&w, model, &options, json) : STATUS_USAGE;
}
