/* `swiftlet bench learn`: what a user gets from a cold start, at stated prices.
 *
 * The session's own code with the defaults, on made-up models whose passes run for real, under a clock that
 * counts each pass at its price (tools/lab/timed_backend.h): requests of 256 tokens one after another,
 * nothing learned before. Beside it the reference mask of the model (tools/program/reference_mask.h), given
 * from the start and never searched. A slope is what one more row in a pass costs, in plain steps. (A model
 * and prompts that are given: tools/lab/bench_learn_stream.c.) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lab/bench_learn.h"
#include "tools/lab/timed_backend.h"
#include "tools/program/reference_mask.h"

enum { REQUEST = 256, REFERENCE_WARM = 512, REFERENCE_TOKENS = 2048, STRETCH = 512, SHORTEST = 512 };
enum { MOST_LANDSCAPES = 2, MOST_BLOCKS = 3, MOST_SLOPES = 3, MOST_SEEDS = 16 };

static const char* const landscape[MOST_LANDSCAPES] = {"plant=0.45", "landscape=graded"};
static const char* const landscape_name[MOST_LANDSCAPES] = {"planted", "graded"};
static const int blocks_of[MOST_BLOCKS] = {24, 32, 40};
static const double slope_of[MOST_SLOPES] = {0.006, 0.05, 0.2};

struct outcome {
	double reference; /* speed over plain with the reference mask */
	double reference_skip, reference_matchness, skip,
	    matchness;           /* of the reference mask, and of that at the end */
	double tokens;           /* until the last STRETCH ran at 0.95 of it; NaN: never */
	double reference_tokens; /* likewise of a session that had the reference mask from the start */
	double late;             /* speed of the last STRETCH tokens over the reference's */
	double worst;            /* least speed over plain of any beginning of at least SHORTEST tokens */
	double proposals;
	double share; /* of plain time that learning took */
};

struct learning {
	struct swiftlet_options options;
	int64_t tokens, seeds;
	const char* only; /* a landscape, or NULL */
	int64_t only_blocks;
	bool json;
	int done, all;
};

/* ---- one run ------------------------------------------------------------------------------ */

struct track {
	double* seconds; /* (n) the clock after each token, decoding alone */
	int n, most;
	double spent;
	double learned; /* seconds in learning; a plain step is one */
	int64_t served; /* tokens of whole requests */
};

/* One request; its prefill, which brings the first token, is left out. */
static bool request(const struct bench* bench, const struct timed_backend* timed, struct session* session,
                    uint64_t number, struct track* track, struct error* error) {
	int32_t id[BENCH_PROMPT];
	struct swiftlet_request r;
	struct swiftlet_step step;
	swiftlet_request_default(&r, session_options(session));
	r.prompt = id;
	r.n_prompt = BENCH_PROMPT;
	r.max_tokens = REQUEST;
	if (!bench_prompt(bench, number, id, BENCH_PROMPT, error) ||
	    !swiftlet_session_start(session, &r, error->message, sizeof error->message))
		return false;
	bool prefilled = false;
	do {
		const double before = timed->now;
		if (!swiftlet_session_step(session, &step, error->message, sizeof error->message))
			return false;
		track->spent += prefilled ? timed->now - before : 0;
		for (int i = 0; prefilled && i < step.n && track->n < track->most; i++)
			track->seconds[track->n++] = track->spent;
		prefilled = prefilled || step.n > 0;
	} while (step.stop == SWIFTLET_RUNNING);
	struct swiftlet_figures figures;
	swiftlet_session_figures(session, &figures);
	track->learned += figures.seconds.optimize;
	track->served += figures.plain_steps + figures.round_tokens;
	return step.stop != SWIFTLET_CANCELLED || error_set(error, "the generation was cancelled");
}

/* Requests until there are `most` tokens. given: a mask to start from, or NULL; last: the one at the end. */
static bool run(const struct bench* bench, struct timed_backend* timed,
                const struct swiftlet_options* options, const struct mask* given, struct mask* last,
                struct track* track, double* proposals, struct error* error) {
	struct session* session =
	    swiftlet_session_open(bench->engine, options, error->message, sizeof error->message);
	if (!session)
		return false;
	if (given)
		session_set_mask(session, given);
	bool good = true;
	*track = (struct track){.seconds = track->seconds, .most = track->most};
	for (uint64_t number = 0; good && track->n < track->most; number++)
		good = request(bench, timed, session, number, track, error);
	*proposals = search_steps(session_search(session));
	*last = session_mask(session, NULL);
	swiftlet_session_close(session);
	return good;
}

/* ---- what it says --------------------------------------------------------------------------- */

static double speed_between(const struct track* t, int from, int to) {
	return (to - from) / (t->seconds[to - 1] - (from > 0 ? t->seconds[from - 1] : 0));
}

static double tokens_until(const struct track* t, double speed) {
	for (int n = STRETCH; n <= t->n; n++)
		if (speed_between(t, n - STRETCH, n) >= speed)
			return n;
	return NAN;
}

static void judge(const struct track* learnt, struct outcome* o) {
	o->tokens = tokens_until(learnt, 0.95 * o->reference);
	o->worst = INFINITY;
	for (int n = SHORTEST; n <= learnt->n; n++)
		o->worst = fmin(o->worst, speed_between(learnt, 0, n));
	o->share = learnt->learned / (double)learnt->served;
	o->late = speed_between(learnt, learnt->n - STRETCH, learnt->n) / o->reference;
}

/* The mask of most speed at this slope, by local search on text of the model's own from `start`. */
static bool find_reference(const struct bench* bench, struct reference_texts* texts, double slope,
                           const struct mask* start, struct reference* out, struct error* error) {
	struct reference_prices prices = {.most = bench->options.max_draft};
	double fixed;
	cost_sub_layers(&bench->engine->cost, false, &prices.attention, &prices.mlp, &fixed);
	for (int n = 1; n < (int)(sizeof prices.v / sizeof *prices.v); n++)
		prices.v[n] = 1 + slope * (n - 1);
	const struct reference_goal goal = {
	    .size = -1, .worth = reference_speed, .user = &prices, .start = start};
	return reference_search(texts, &goal, out, error);
}

static double skip_ratio_of(const struct bench* bench, const struct mask* mask) {
	return (double)mask_count(mask) / (2 * (bench->model->weights.shape.n_blocks - 2));
}

/* best: where the search for the reference mask begins if `started`, then what it found. */
static bool measure(const struct learning* l, struct bench* bench, struct reference_texts* texts,
                    double slope, struct reference* best, bool started, struct outcome* o,
                    struct error* error) {
	struct timed_backend timed;
	const struct price_list priced = prices_of_slope(slope);
	struct swiftlet_options options = l->options;
	struct track track = {.n = 0};
	struct mask learnt;
	double ignored;
	const struct mask start = best->mask;
	if (!find_reference(bench, texts, slope, started ? &start : NULL, best, error))
		return false;
	const int64_t most =
	    l->tokens > REFERENCE_WARM + REFERENCE_TOKENS ? l->tokens : REFERENCE_WARM + REFERENCE_TOKENS;
	track.seconds = malloc(sizeof *track.seconds * (size_t)most);
	if (!track.seconds)
		return error_set(error, "out of memory");
	timed_backend_install(&timed, bench->engine, &priced);
	options.clock = timed_backend_clock;
	options.clock_user = &timed;
	struct swiftlet_options fixed = options;
	fixed.search = false;
	track.most = REFERENCE_WARM + REFERENCE_TOKENS;
	bool good = run(bench, &timed, &fixed, &best->mask, &learnt, &track, &ignored, error);
	if (good) {
		o->reference = fmax(1, speed_between(&track, REFERENCE_WARM, track.n));
		o->reference_tokens = tokens_until(&track, 0.95 * o->reference);
		timed_backend_remove(&timed);
		timed_backend_install(&timed, bench->engine, &priced);
		track.most = (int)l->tokens;
		good = run(bench, &timed, &options, NULL, &learnt, &track, &o->proposals, error);
	}
	timed_backend_remove(&timed);
	if (good) {
		judge(&track, o);
		o->reference_skip = skip_ratio_of(bench, &best->mask);
		o->reference_matchness = best->matchness;
		o->skip = skip_ratio_of(bench, &learnt);
		o->matchness = reference_judge(texts, &learnt, error);
		good = o->matchness >= 0;
	}
	free(track.seconds);
	return good;
}

/* ---- the table ------------------------------------------------------------------------------ */

static void print_json_row(cJSON* rows, int kind, int blocks, double slope, const struct outcome* o,
                           int seeds) {
	for (int i = 0; i < seeds; i++) {
		cJSON* row = cJSON_CreateObject();
		cJSON_AddStringToObject(row, "landscape", landscape_name[kind]);
		cJSON_AddNumberToObject(row, "blocks", blocks);
		cJSON_AddNumberToObject(row, "seed", i + 1);
		cJSON_AddNumberToObject(row, "slope", slope);
		bench_json_number(row, "reference_speed", o[i].reference);
		bench_json_number(row, "tokens_to_95", o[i].tokens);
		bench_json_number(row, "reference_tokens_to_95", o[i].reference_tokens);
		bench_json_number(row, "late_over_reference", o[i].late);
		bench_json_number(row, "worst_over_plain", o[i].worst);
		bench_json_number(row, "proposals", o[i].proposals);
		bench_json_number(row, "learning_share", o[i].share);
		bench_json_number(row, "reference_skip_ratio", o[i].reference_skip);
		bench_json_number(row, "reference_matchness", o[i].reference_matchness);
		bench_json_number(row, "skip_ratio", o[i].skip);
		bench_json_number(row, "matchness", o[i].matchness);
		cJSON_AddItemToArray(rows, row);
	}
}

static void print_row(int kind, int blocks, double slope, const struct outcome* o, int seeds) {
	double reference[MOST_SEEDS], tokens[MOST_SEEDS], late[MOST_SEEDS], worst[MOST_SEEDS];
	for (int i = 0; i < seeds; i++) {
		reference[i] = o[i].reference;
		tokens[i] = isnan(o[i].tokens) ? INFINITY : o[i].tokens;
		late[i] = o[i].late;
		worst[i] = o[i].worst;
	}
	const double middle = bench_median(reference, seeds), soon = bench_median(tokens, seeds);
	const double after = bench_median(late, seeds), least = bench_median(worst, seeds);
	printf("%-8s %6d %7.3f %9.3f %10.0f %8.0f %8.3f %7.3f %9.3f %7.3f\n", landscape_name[kind], blocks, slope,
	       middle, soon, tokens[seeds - 1], after, late[0], least, worst[0]);
}

static bool measure_model(struct learning* l, int kind, int blocks, cJSON* rows, struct error* error) {
	struct outcome outcome[MOST_SLOPES][MOST_SEEDS];
	for (int seed = 0; seed < l->seeds; seed++) {
		struct bench bench;
		char spec[160];
		snprintf(spec, sizeof spec,
		         "synth:layers=%d,dim=64,heads=2,kv-heads=1,ffn=128,vocab=1024,dtype=f32,%s,seed=%d", blocks,
		         landscape[kind], seed + 1);
		if (bench_open(&bench, spec, &l->options, l->json) != OPTIONS_GO_ON)
			return error_set(error, "%s could not be opened", spec);
		struct reference_texts* texts = reference_open(bench.engine->backend, error);
		struct reference best = {.mask = bench.model->planted[0]};
		const bool planted = bench.model->n_planted > 0;
		bool good = texts != NULL;
		for (int i = 0; good && i < MOST_SLOPES; i++) {
			bench_progress((double)l->done++ / l->all, "%s, %d blocks, seed %d, slope %g",
			               landscape_name[kind], blocks, seed + 1, slope_of[i]);
			good = measure(l, &bench, texts, slope_of[i], &best, planted || i > 0, &outcome[i][seed], error);
		}
		if (texts)
			reference_close(texts);
		bench_close(&bench);
		if (!good)
			return false;
	}
	bench_progress_end();
	for (int i = 0; i < MOST_SLOPES; i++)
		if (rows)
			print_json_row(rows, kind, blocks, slope_of[i], outcome[i], (int)l->seeds);
		else
			print_row(kind, blocks, slope_of[i], outcome[i], (int)l->seeds);
	fflush(stdout);
	return true;
}

static int run_all(struct learning* l) {
	struct error error = {{0}};
	cJSON* out = l->json ? cJSON_CreateObject() : NULL;
	cJSON* rows = l->json ? cJSON_AddArrayToObject(out, "rows") : NULL;
	bool good = true;
	if (!l->json)
		printf("%-8s %6s %7s %9s %19s %16s %17s\n%-8s %6s %7s %9s %10s %8s %8s %7s %9s %7s\n", "", "", "",
		       "reference", "tokens until 0.95", "late / reference", "least / plain", "model", "blocks",
		       "slope", "speed", "median", "worst", "median", "worst", "median", "worst");
	for (int kind = 0; good && kind < MOST_LANDSCAPES; kind++)
		for (int i = 0; good && i < MOST_BLOCKS; i++)
			if ((!l->only || strcmp(l->only, landscape_name[kind]) == 0) &&
			    (!l->only_blocks || l->only_blocks == blocks_of[i]))
				good = measure_model(l, kind, blocks_of[i], rows, &error);
	bench_progress_end();
	if (!good) {
		cJSON_Delete(out);
		return complain(STATUS_FAILED, "%s", error.message);
	}
	return l->json ? bench_print_json(out) : STATUS_DONE;
}

/* Of a stream: one slope, or all. */
static int run_stream(const struct learning* l, struct bench_stream* stream, const char* given) {
	double one;
	char rest;
	if (given && (sscanf(given, "%lf%c", &one, &rest) != 1 || !(one >= 0 && one <= 1)))
		return complain(STATUS_USAGE, "bench learn: --slope %s: expected 0 to 1", given);
	if (stream->store && !given)
		return complain(STATUS_USAGE,
		                "bench learn: --store wants one --slope: a run begins with what is there");
	stream->slope = given ? &one : slope_of;
	stream->slopes = given ? 1 : MOST_SLOPES;
	stream->options = l->options;
	stream->tokens = l->tokens;
	stream->json = l->json;
	return bench_learn_stream(stream);
}

int bench_learn_main(int argc, char** argv) {
	struct learning l = {.seeds = 5};
	struct bench_stream stream = {.model = NULL};
	const char* slope = NULL;
	const struct option option[] = {
	    {"tokens", 0, "N", "tokens a run (20480; of a stream: its prompts once)", OPTION_COUNT, &l.tokens,
	     1024, 1 << 20},
	    {"seeds", 0, "N", "models of each kind (5)", OPTION_COUNT, &l.seeds, 1, MOST_SEEDS},
	    {"model", 'm', "MODEL", "this model alone, on prompts of -i", OPTION_TEXT, &stream.model, 0, 0},
	    {"input", 'i', "FILE", "prompts, a JSON object a line", OPTION_TEXT, &stream.input, 0, 0},
	    {"store", 0, "FILE", "of a stream: keep what is learned there; a second run is its second pass",
	     OPTION_TEXT, &stream.store, 0, 0},
	    {"slope", 0, "X", "of a stream: this slope alone", OPTION_TEXT, &slope, 0, 0},
	    {"landscape", 0, "NAME", "planted or graded alone", OPTION_TEXT, &l.only, 0, 0},
	    {"blocks", 0, "N", "24, 32 or 40 alone", OPTION_COUNT, &l.only_blocks, 24, 40},
	    {"json", 0, NULL, "print one JSON object, a row each run", OPTION_FLAG, &l.json, 0, 0}};
	struct command_line line = {
	    .name = "bench learn",
	    .usage =
	        "[--landscape planted|graded] [--blocks N] [--seeds N] [--tokens N] [--json] [options]\n"
	        "                            -m MODEL -i FILE [--slope X [--store FILE]] [--tokens N] [--json] "
	        "[options]",
	    .about =
	        "What a cold start brings with the defaults, at stated prices: made-up models of 24, 32 and 40\n"
	        "blocks run for real under a clock that counts a pass of n rows as 1 + slope·(n - 1) plain "
	        "steps.\n"
	        "  reference speed    over plain decoding, with the model's reference mask given\n"
	        "  tokens until 0.95  until the last 512 tokens ran at 0.95 of that\n"
	        "  late / reference   the last 512 tokens' speed over it\n"
	        "  least / plain      of any beginning of 512 tokens and more, over plain decoding\n"
	        "With -m and -i: what the session's options and the bank make of a stream at each slope, by "
	        "task: speed\n"
	        "over plain decoding, and the matchness that the mask each text began with has on it.",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &l.options};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (l.only && strcmp(l.only, landscape_name[0]) != 0 && strcmp(l.only, landscape_name[1]) != 0)
		return complain(STATUS_USAGE, "bench learn: --landscape %s: expected planted or graded", l.only);
	if (l.options.threads == 0)
		l.options.threads = 1; /* small models: hand-overs between threads would cost more than they bring */
	if (!stream.model != !stream.input)
		return complain(STATUS_USAGE, "bench learn: -m MODEL and -i FILE go together");
	if (!stream.model && (slope || stream.store))
		return complain(STATUS_USAGE, "bench learn: --slope and --store are of a stream: -m MODEL -i FILE");
	if (stream.model)
		return run_stream(&l, &stream, slope);
	l.tokens = l.tokens ? l.tokens : 20480;
	return run_all(&l);
}
