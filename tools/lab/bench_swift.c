/* `swiftlet bench swift`: the method on one model, in four parts.
 *
 * search: a session that proposes before every round until a stopping rule fires. decode: a session with
 * the mask found beside one that decodes plainly, in alternating slices, so that both see the same machine;
 * the speed-up is the median of the slices' ratios, and stands beside what M, alpha and c promise (SWIFT
 * Eq. 6). cold: sessions with the defaults and nothing learned, at three skip ratios, beside a plain one:
 * the most that trying may cost. copy: skipping, a low-bit copy of the weights, and both (bench_lowbit.c).
 * Every token of every session is compared with the plain one's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lab/bench_lowbit.h"
#include "tools/program/runtime.h"

/* Short slices where sessions are compared by their whole time: the machine's drift is shared evenly. */
enum { SLICE = 32, COLD_SLICE = 8, RATIOS = 3, MOST_PAIRS = 5, REQUEST = 512, ROW_REPEATS = 3 };
enum { FIRST_DECODE_PROMPT = 1000, FIRST_COLD_PROMPT = 2000 };

static const double ratio_of[RATIOS] = {0.3, 0.45, 0.6};

struct cold {
	double slowdown[MOST_PAIRS]; /* a pair's time over plain */
};

struct swift {
	struct bench bench;
	const char* parts;
	int64_t slices, pairs, cold_tokens, cold_seconds;
	double row_seconds[ROW_COUNTS];
	/* search */
	int steps;
	double search_seconds, matchness, planted_share;
	const char* search_state;
	double search_optimizer_share, search_pass_share;
	struct mask mask;
	/* decode */
	struct way way[2]; /* and plain decoding */
	double plain_speed, swift_speed;
	double decode_host_share;
	double optimizer_share, pass_share; /* over search and decode together */
	/* cold */
	struct lowbit lowbit;
	int bits; /* of the copy */
	struct cold cold[RATIOS];
	int pairs_done;
	double worst;
	int64_t compared, differing;
	/* seconds of the two first parts, for the shares */
	double host_seconds, pass_seconds, all_seconds;
};

static bool has(const struct swift* w, char part) { return strchr(w->parts, part) != NULL; }

/* ---- the search --------------------------------------------------------------------------- */

static double share_of_planted(const struct model* model, const struct mask* mask) {
	const struct mask* planted = &model->planted[0];
	int both = 0;
	if (model->n_planted == 0 || mask_count(mask) == 0)
		return NAN;
	for (int i = 0; i < 2 * model->weights.shape.n_blocks; i++)
		both += mask_has(mask, i) && mask_has(planted, i);
	return (double)both / mask_count(mask);
}

static bool run_search(struct swift* w, struct error* error) {
	struct swiftlet_options options = w->bench.options;
	struct runner r;
	double seconds = 0;
	int64_t tokens = 0;
	options.opt_budget = INFINITY;
	options.patience = options.max_steps; /* what the search finds, not when it gives up */
	if (!runner_open(&r, &w->bench, &options, 0, REQUEST, error))
		return false;
	struct search* search = session_search(r.session);
	const double started = seconds_now();
	bool good = search != NULL || error_set(error, "a model of fewer than 3 blocks has nothing to search");
	while (good && search_state(search) == SEARCH_RUNNING) {
		good = runner_advance(&r, 1, &seconds, &tokens, error);
		w->mask = session_mask(r.session, &w->matchness);
		bench_progress((double)search_steps(search) / options.max_steps,
		               "search: %d proposals, matchness %.2f", search_steps(search), w->matchness);
	}
	if (good) {
		w->search_seconds = seconds_now() - started;
		w->steps = search_steps(search);
		w->search_state = search_state_name(search_state(search));
		w->planted_share = share_of_planted(w->bench.model, &w->mask);
		w->search_optimizer_share = runner_host_seconds(&r) / r.seconds;
		w->search_pass_share = r.pass_seconds[WORK_MATCHNESS] / r.seconds;
		w->host_seconds += runner_host_seconds(&r);
		w->pass_seconds += r.pass_seconds[WORK_MATCHNESS];
		w->all_seconds += r.seconds;
	}
	runner_close(&r);
	return good;
}

/* ---- with the mask found ------------------------------------------------------------------ */

static struct swiftlet_options vanilla(const struct swiftlet_options* options) {
	struct swiftlet_options plain = *options;
	plain.method = SWIFTLET_VANILLA;
	return plain;
}

static double per_token(double seconds, int64_t tokens) {
	return tokens > 0 ? seconds / (double)tokens : NAN;
}

static void figures(struct swift* w) {
	const struct runner *swift = &w->way[0].runner, *plain = &w->way[1].runner;
	ways_judge(w->way, 2, (int)w->slices, &w->compared, &w->differing);
	w->plain_speed = 1 / per_token(plain->seconds, plain->tokens);
	w->swift_speed = 1 / per_token(swift->seconds, swift->tokens);
	w->decode_host_share = runner_host_seconds(swift) / swift->seconds;
	w->host_seconds += runner_host_seconds(swift);
	w->pass_seconds += swift->pass_seconds[WORK_MATCHNESS];
	w->all_seconds += swift->seconds;
	w->optimizer_share = w->host_seconds / w->all_seconds;
	w->pass_share = w->pass_seconds / w->all_seconds;
}

static bool run_decode(struct swift* w, struct error* error) {
	struct swiftlet_options options = w->bench.options, plain = vanilla(&options);
	options.search = false;
	bool good = runner_open(&w->way[0].runner, &w->bench, &options, FIRST_DECODE_PROMPT, REQUEST, error) &&
	            runner_open(&w->way[1].runner, &w->bench, &plain, FIRST_DECODE_PROMPT, REQUEST, error);
	if (good) {
		session_set_mask(w->way[0].runner.session, &w->mask);
		session_expect(w->way[0].runner.session, w->matchness);
	}
	/* a first turn, uncounted, in which costs and acceptance are learned */
	good = good && ways_turn(w->way, 2, SLICE, 1, 0, error);
	if (good)
		ways_reset(w->way, 2);
	for (int i = 0; good && i < w->slices; i++) {
		bench_progress((double)i / (double)w->slices, "decoding in turns");
		good = ways_turn(w->way, 2, SLICE, i, i, error);
	}
	if (good)
		figures(w);
	ways_close(w->way, 2);
	return good;
}

/* ---- from a cold start -------------------------------------------------------------------- */

/* One pair a ratio: sessions that know nothing and a plain one, all of them slice by slice in turns. */
static bool cold_pair(struct swift* w, int pair, struct error* error) {
	struct way way[RATIOS + 1] = {{.name = NULL}};
	bool good = true;
	engine_forget_costs(w->bench.engine);
	for (int k = 0; good && k <= RATIOS; k++) {
		struct swiftlet_options options = k < RATIOS ? w->bench.options : vanilla(&w->bench.options);
		options.skip_ratio = k < RATIOS ? ratio_of[k] : 0;
		good = runner_open(&way[k].runner, &w->bench, &options, (uint64_t)(FIRST_COLD_PROMPT + pair),
		                   (int)w->cold_tokens + SLICE, error);
	}
	for (int turn = 0; good && turn * COLD_SLICE < w->cold_tokens; turn++) {
		bench_progress((double)turn * COLD_SLICE / (double)w->cold_tokens, "cold start %d of %d", pair + 1,
		               (int)w->pairs);
		good = ways_turn(way, RATIOS + 1, COLD_SLICE, turn, 0, error);
	}
	for (int k = 0; good && k < RATIOS; k++) {
		w->cold[k].slowdown[pair] =
		    per_token(way[k].seconds, way[k].tokens) / per_token(way[RATIOS].seconds, way[RATIOS].tokens);
		w->compared += runner_compare(&way[k].runner, &way[RATIOS].runner, &w->differing);
	}
	ways_close(way, RATIOS + 1);
	return good;
}

static bool run_cold(struct swift* w, struct error* error) {
	const double started = seconds_now();
	bool good = true;
	for (int pair = 0; good && pair < w->pairs; pair++) {
		/* another pair would take as long as those before: stop where that is over the time allowed */
		const double each = pair > 0 ? (seconds_now() - started) / pair : 0;
		if (pair > 0 && each * (pair + 1) > (double)w->cold_seconds)
			break;
		good = cold_pair(w, pair, error);
		w->pairs_done += good;
	}
	w->worst = 0;
	for (int k = 0; good && k < RATIOS; k++) {
		const double slowdown = bench_median(w->cold[k].slowdown, w->pairs_done);
		w->worst = slowdown > w->worst ? slowdown : w->worst;
	}
	return good;
}

/* ---- telling ------------------------------------------------------------------------------ */

static void json_search(const struct swift* w, cJSON* out) {
	cJSON_AddNumberToObject(out, "steps_to_stop", w->steps);
	bench_json_number(out, "seconds_to_stop", w->search_seconds);
	cJSON_AddStringToObject(out, "search_state", w->search_state);
	bench_json_number(out, "matchness", w->matchness);
	bench_json_number(out, "planted_share", w->planted_share);
	bench_json_number(out, "search_optimizer_share", w->search_optimizer_share);
	bench_json_number(out, "search_search_pass_share", w->search_pass_share);
}

static void json_decode(const struct swift* w, cJSON* out) {
	bench_json_number(out, "plain_tokens_per_second", w->plain_speed);
	bench_json_number(out, "tokens_per_second", w->swift_speed);
	way_json(&w->way[0], out);
	bench_json_number(out, "realized_over_expected", w->way[0].speedup / w->way[0].expected);
	bench_json_number(out, "optimizer_share", w->optimizer_share);
	bench_json_number(out, "search_pass_share", w->pass_share);
	bench_json_number(out, "decode_optimizer_share", w->decode_host_share);
}

static void json_cold(const struct swift* w, cJSON* out) {
	bench_json_number(out, "worst_slowdown", w->worst);
	cJSON_AddNumberToObject(out, "cold_tokens", (double)w->cold_tokens);
	cJSON_AddNumberToObject(out, "cold_pairs", w->pairs_done);
	cJSON* list = cJSON_AddArrayToObject(out, "cold");
	for (int k = 0; k < RATIOS; k++) {
		double value[MOST_PAIRS];
		cJSON* one = cJSON_CreateObject();
		memcpy(value, w->cold[k].slowdown, sizeof value);
		cJSON_AddNumberToObject(one, "skip_ratio", ratio_of[k]);
		bench_json_number(one, "slowdown", bench_median(value, w->pairs_done));
		cJSON* pairs = cJSON_AddArrayToObject(one, "pairs");
		for (int i = 0; i < w->pairs_done; i++)
			cJSON_AddItemToArray(pairs, cJSON_CreateNumber(w->cold[k].slowdown[i]));
		cJSON_AddItemToArray(list, one);
	}
}

static int tell_json(const struct swift* w) {
	cJSON* out = cJSON_CreateObject();
	bench_describe(&w->bench, out);
	if (has(w, 'a'))
		json_search(w, out);
	if (has(w, 'b'))
		json_decode(w, out);
	if (has(w, 'c'))
		json_cold(w, out);
	if (has(w, 'd'))
		lowbit_json(&w->lowbit, out);
	bench_json_rows(out, w->row_seconds);
	cJSON_AddNumberToObject(out, "tokens_compared", (double)w->compared);
	cJSON_AddNumberToObject(out, "tokens_differing", (double)w->differing);
	return bench_print_json(out);
}

static void print_decode(const struct swift* w) {
	const struct way* way = &w->way[0];
	printf("\nb. with that mask, in turns with plain decoding, %d slices of %d tokens\n", (int)w->slices,
	       SLICE);
	printf("  plain              %10.2f tokens/s\n", w->plain_speed);
	printf("  swiftlet           %10.2f tokens/s\n", w->swift_speed);
	printf("  speed-up           %10.2f (quartiles %.2f to %.2f)\n", way->speedup, way->lower, way->upper);
	printf("  M, alpha, c        %10.2f %.3f %.3f\n", way->mean_generated, way->alpha, way->c);
	printf("  expected speed-up  %10.2f, of which %.2f came true\n", way->expected,
	       way->speedup / way->expected);
	printf("  of the time of a and b: optimizer %.4f, search passes %.3f\n", w->optimizer_share,
	       w->pass_share);
}

static int tell(const struct swift* w) {
	const struct backend* backend = w->bench.engine->backend;
	printf("%s on %s, %d threads\n", swiftlet_model_name(w->bench.model),
	       swiftlet_engine_name(w->bench.engine), backend->threads(backend));
	if (has(w, 'a')) {
		printf("\na. search, a proposal before every round\n");
		printf("  stopped            %10s after %d proposals, %.1f s\n", w->search_state, w->steps,
		       w->search_seconds);
		printf("  matchness          %10.3f\n", w->matchness);
		if (isfinite(w->planted_share))
			printf("  of it planted      %10.2f\n", w->planted_share);
	}
	if (has(w, 'b'))
		print_decode(w);
	if (has(w, 'c')) {
		printf("\nc. from a cold start, %d tokens, %d pair(s) a ratio: time over plain\n",
		       (int)w->cold_tokens, w->pairs_done);
		for (int k = 0; k < RATIOS; k++) {
			printf("  skip ratio %.2f    ", ratio_of[k]);
			for (int i = 0; i < w->pairs_done; i++)
				printf(" %6.3f", w->cold[k].slowdown[i]);
			printf("\n");
		}
		printf("  worst slow-down    %10.3f\n", w->worst);
	}
	if (has(w, 'd'))
		lowbit_print(&w->lowbit);
	bench_print_rows(w->row_seconds);
	printf("\n%lld tokens compared with plain decoding's, %lld differ\n", (long long)w->compared,
	       (long long)w->differing);
	return STATUS_DONE;
}

/* ---- the command -------------------------------------------------------------------------- */

static bool measure(struct swift* w, struct error* error) {
	const struct model* model = w->bench.model;
	if (!bench_measure_rows(&w->bench, 128, ROW_REPEATS, w->row_seconds, error))
		return false;
	if (has(w, 'a') && !run_search(w, error))
		return false;
	if (!has(w, 'a') && has(w, 'b')) {
		if (model->n_planted == 0)
			return error_set(error,
			                 "part b without part a needs a planted model: no mask was found to decode with");
		w->mask = model->planted[0];
		w->matchness = 0.97; /* what is planted is known to have it */
	}
	if ((has(w, 'b') && !run_decode(w, error)) || (has(w, 'c') && !run_cold(w, error)))
		return false;
	const bool good = !has(w, 'd') || lowbit_measure(&w->lowbit, &w->bench, w->bits, w->slices, error);
	w->compared += w->lowbit.compared;
	w->differing += w->lowbit.differing;
	return good;
}

static int run(struct swift* w, const char* model, struct swiftlet_options* options, bool json) {
	struct error error = {{0}};
	if (options->context == 0)
		options->context = 1024;
	if (options->context < BENCH_PROMPT + 64)
		return complain(STATUS_USAGE, "bench swift: --context %d, expected at least %d", options->context,
		                BENCH_PROMPT + 64);
	w->bits = options->draft_bits < 0 ? 4 : options->draft_bits;
	options->draft_bits = has(w, 'd') ? w->bits : 0;
	if (!options->draft_cache[0])
		snprintf(options->draft_cache, sizeof options->draft_cache, "off"); /* making it is timed */
	int status = bench_open(&w->bench, model, options, json);
	w->bench.options.draft_bits = 0; /* of the other parts' sessions */
	if (status == OPTIONS_GO_ON) {
		const bool good = measure(w, &error);
		bench_progress_end();
		status = !good ? complain(STATUS_FAILED, "%s", error.message) : json ? tell_json(w) : tell(w);
	}
	bench_close(&w->bench);
	if (status == STATUS_DONE && w->differing > 0)
		return complain(STATUS_FAILED, "%lld tokens differ from plain decoding's", (long long)w->differing);
	return status;
}

int bench_swift_main(int argc, char** argv) {
	struct swift w = {
	    .parts = "abcd", .slices = 16, .pairs = MOST_PAIRS, .cold_tokens = 512, .cold_seconds = 420};
	struct swiftlet_options options;
	const char* model = NULL;
	bool json = false;
	const struct option option[] = {
	    {"model", 'm', "MODEL", "a model, or synth:SHAPE (builtin)", OPTION_TEXT, &model, 0, 0},
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0},
	    {"parts", 0, "abcd", "which parts; b without a takes a made-up model's planted mask", OPTION_TEXT,
	     &w.parts, 0, 0},
	    {"slices", 0, "N", "slices of 32 tokens in b and d (16)", OPTION_COUNT, &w.slices, 1, MOST_SLICES},
	    {"pairs", 0, "N", "cold starts in c (5)", OPTION_COUNT, &w.pairs, 1, MOST_PAIRS},
	    {"cold-tokens", 0, "N", "tokens of each (512)", OPTION_COUNT, &w.cold_tokens, 32, 1 << 16},
	    {"cold-seconds", 0, "N", "fewer cold starts where five take longer (420)", OPTION_COUNT,
	     &w.cold_seconds, 1, 1 << 20},
	};
	struct command_line line = {
	    .name = "bench swift",
	    .usage = "[MODEL|-m MODEL] [--json] [options]",
	    .about =
	        "The method on one model, greedy:\n"
	        "  a  search with a proposal before every round (--opt-budget inf, --patience as --max-steps) "
	        "until a\n"
	        "     stopping rule fires: proposals, seconds, the best mask's matchness\n"
	        "  b  decoding with that mask and plainly, in turns: speed-up, M (tokens a round), alpha (share "
	        "of\n"
	        "     draft steps accepted), c (a draft step over a full pass), and the speed-up that these\n"
	        "     promise; optimizer: time outside model passes, search passes: time scoring proposals\n"
	        "  c  sessions that have learned nothing, with the defaults, at skip ratios 0.3, 0.45 and 0.6:\n"
	        "     their time over plain decoding's, the median of the pairs; 1.00 = equal\n"
	        "  d  sub-layers skipped, a copy of the weights in few bits (--draft-bits, 4), and both, in "
	        "turns\n"
	        "     with plain decoding: made-up models skip what was planted, others what the search finds\n"
	        "Also the cost of a pass by rows. Every token is compared with plain decoding's; where one "
	        "differs\n"
	        "the exit status is 1.",
	    .examples = "  swiftlet bench swift -m synth:tinyllama-1.1b,dtype=f16,plant=0.45\n"
	                "  swiftlet bench swift -m synth:tinyllama-1.1b,dtype=f16,plant=0.45 --parts d\n"
	                "  swiftlet bench swift -m synth:llama-2-13b,plant=0.45 --backend cuda --json",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &options,
	    .max_words = 1,
	};
	const int status = options_parse_model(&line, argc, argv, &model);
	if (status != OPTIONS_GO_ON)
		return status;
	if (strspn(w.parts, "abcd") != strlen(w.parts) || !*w.parts)
		return complain(STATUS_USAGE, "bench swift: --parts %s, expected letters of abcd", w.parts);
	return run(&w, model, &options, json);
}
