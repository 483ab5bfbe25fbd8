/* `swiftlet bench cold`: what the defaults bring from a cold start on this machine.
 *
 * One generation, twice: a session with the defaults and nothing learned, and one that decodes plainly, over
 * the same weights. They advance in turns, by slices of a second or two, each first in turn: where the
 * memory's speed changes from one minute to the next, whole runs one after the other measure the machine, and
 * slices side by side the method. Each session has prices of its own, so that neither learns from the other's
 * passes. What works in the background belongs to the defaults: the copy's makers rest while the plain
 * session runs, as they do while any request does, and what the search's thread used meanwhile is charged to
 * the defaults. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/report.h"
#include "tools/lab/bench.h"
#include "tools/program/draw_mask.h"
#include "tools/program/runtime.h"

enum { DEFAULTS, PLAIN, BOTH, QUARTERS = 4, STRETCHES = 12 }; /* the course of a run; three make a quarter */

struct part_of_run {
	double seconds;
	int64_t tokens;
	double plain, draft, verify, search; /* of the seconds */
};

struct cold_run {
	struct bench bench;
	int64_t tokens, slice;
	const char* prompt;
	int32_t* id; /* (n_id) of the prompt; malloc'd */
	int n_id;
	struct runner runner[BOTH];
	struct cost_model cost[BOTH];
	struct part_of_run stretch[STRETCHES][BOTH], quarter[QUARTERS][BOTH], all[BOTH];
	int64_t copy_joined; /* tokens after which drafts ran with it; -1: never */
	int64_t compared, differing;
	struct swiftlet_figures figures; /* of the defaults */
};

/* ---- running -------------------------------------------------------------------------------- */

static bool open_prompt(struct cold_run* w, struct error* error) {
	if (w->prompt) {
		w->id = swiftlet_tokenize(w->bench.model, w->prompt, strlen(w->prompt), &w->n_id);
		return w->id || error_set(error, "the prompt could not be turned into tokens");
	}
	w->id = malloc(BENCH_PROMPT * sizeof *w->id);
	w->n_id = BENCH_PROMPT;
	return w->id ? bench_prompt(&w->bench, 0, w->id, BENCH_PROMPT, error)
	             : error_set(error, "out of memory for the prompt");
}

static bool open_runners(struct cold_run* w, struct error* error) {
	for (int who = 0; who < BOTH; who++) {
		struct swiftlet_options options = w->bench.options;
		struct runner* r = &w->runner[who];
		if (who == PLAIN)
			options.method = SWIFTLET_VANILLA;
		if (!runner_open(r, &w->bench, &options, 0, (int)w->tokens, error))
			return false;
		r->given = w->id;
		r->n_given = w->n_id;
		w->cost[who] = w->bench.engine->cost;
	}
	return true;
}

/* Seconds of the search's own thread; a pass uses all threads, it one. */
static double behind(const struct cold_run* w) {
	double background = 0;
	struct search* search = session_search(w->runner[DEFAULTS].session);
	if (search)
		search_seconds(search, NULL, &background);
	return background / w->bench.engine->backend->threads(w->bench.engine->backend);
}

/* What the session's own seconds have grown by. */
static void add_kinds(struct part_of_run* part, const struct swiftlet_figures* from,
                      struct session* session) {
	struct swiftlet_figures now;
	swiftlet_session_figures(session, &now);
	part->plain += now.seconds.plain - from->seconds.plain;
	part->draft += now.seconds.draft - from->seconds.draft;
	part->verify += now.seconds.verify - from->seconds.verify;
	part->search += now.seconds.optimize - from->seconds.optimize;
}

/* A slice of one of the two, with its own prices in the engine. */
static bool advance(struct cold_run* w, int who, struct part_of_run* part, struct error* error) {
	struct runner* r = &w->runner[who];
	const double before = behind(w);
	struct swiftlet_figures figures;
	swiftlet_session_figures(r->session, &figures);
	const int64_t left = w->tokens - 1 - r->tokens; /* the first token comes with the prefill */
	w->bench.engine->cost = w->cost[who];
	if (!runner_advance(r, (int)(left < w->slice ? left : w->slice), &part[who].seconds, &part[who].tokens,
	                    error))
		return false;
	w->cost[who] = w->bench.engine->cost;
	add_kinds(&part[who], &figures, r->session);
	if (who == PLAIN) {
		part[DEFAULTS].seconds += behind(w) - before;
		part[PLAIN].seconds -= behind(w) - before;
	}
	if (who == DEFAULTS && w->copy_joined < 0 && w->bench.engine->low_joined)
		w->copy_joined = r->tokens;
	return true;
}

static bool is_over(const struct cold_run* w, int who) {
	const struct runner* r = &w->runner[who];
	return r->tokens >= w->tokens - 1 || (r->prefilled && !r->started);
}

/* Slices of the two until both texts are whole; a slice belongs to the stretch that it begins in. */
static bool run_slices(struct cold_run* w, struct error* error) {
	for (int turn = 0; !is_over(w, DEFAULTS) || !is_over(w, PLAIN); turn++)
		for (int k = 0; k < BOTH; k++) {
			const int who = (turn + k) % BOTH;
			const int64_t done = w->runner[who].tokens;
			if (is_over(w, who))
				continue;
			bench_progress((double)done / (double)w->tokens, "from a cold start, in turns");
			if (!advance(w, who, w->stretch[done * STRETCHES / w->tokens], error))
				return false;
		}
	return true;
}

static void add_part(struct part_of_run* sum, const struct part_of_run* part) {
	sum->seconds += part->seconds;
	sum->tokens += part->tokens;
	sum->plain += part->plain;
	sum->draft += part->draft;
	sum->verify += part->verify;
	sum->search += part->search;
}

static void sum_up(struct cold_run* w) {
	struct swiftlet_figures* f = &w->figures;
	for (int i = 0; i < STRETCHES; i++)
		for (int who = 0; who < BOTH; who++) {
			add_part(&w->quarter[i * QUARTERS / STRETCHES][who], &w->stretch[i][who]);
			add_part(&w->all[who], &w->stretch[i][who]);
		}
	w->bench.engine->cost = w->cost[DEFAULTS];
	swiftlet_session_figures(w->runner[DEFAULTS].session, f);
	/* the session's own clock went on while the other one ran */
	f->seconds.load = w->bench.load_seconds;
	f->seconds.decode = w->all[DEFAULTS].seconds;
	f->seconds.other = fmax(0, f->seconds.decode - f->seconds.draft - f->seconds.verify - f->seconds.plain -
	                               f->seconds.optimize);
	f->tokens_per_second = (double)w->all[DEFAULTS].tokens / f->seconds.decode;
	w->compared = runner_compare(&w->runner[DEFAULTS], &w->runner[PLAIN], &w->differing);
	/* one text may be the other's beginning: a token that is missing differs */
	w->differing += llabs((int64_t)w->runner[DEFAULTS].n_token - w->runner[PLAIN].n_token);
}

/* ---- telling -------------------------------------------------------------------------------- */

static double speed(const struct part_of_run* part) {
	return part->tokens > 0 ? (double)part->tokens / part->seconds : NAN;
}

static double ratio(const struct part_of_run part[BOTH]) {
	return speed(&part[DEFAULTS]) / speed(&part[PLAIN]);
}

static void json_part(cJSON* list, const struct part_of_run part[BOTH]) {
	const struct part_of_run* p = &part[DEFAULTS];
	cJSON* out = cJSON_CreateObject();
	cJSON_AddNumberToObject(out, "tokens", (double)p->tokens);
	bench_json_number(out, "speedup", ratio(part));
	bench_json_number(out, "plain_seconds", part[PLAIN].seconds);
	bench_json_number(out, "seconds", p->seconds);
	bench_json_number(out, "plain", p->plain);
	bench_json_number(out, "draft", p->draft);
	bench_json_number(out, "verify", p->verify);
	bench_json_number(out, "search", p->search);
	cJSON_AddItemToArray(list, out);
}

static int tell_json(const struct cold_run* w) {
	cJSON* out = cJSON_CreateObject();
	bench_describe(&w->bench, out);
	bench_json_number(out, "plain_tokens_per_second", speed(&w->all[PLAIN]));
	bench_json_number(out, "speedup", ratio(w->all));
	cJSON* quarters = cJSON_AddArrayToObject(out, "quarters");
	for (int q = 0; q < QUARTERS; q++)
		json_part(quarters, w->quarter[q]);
	cJSON* course = cJSON_AddArrayToObject(out, "course");
	for (int i = 0; i < STRETCHES; i++)
		json_part(course, w->stretch[i]);
	bench_json_number(out, "copy_joined_after", w->copy_joined < 0 ? NAN : (double)w->copy_joined);
	cJSON_AddNumberToObject(out, "tokens", (double)w->figures.tokens);
	cJSON_AddNumberToObject(out, "tokens_compared", (double)w->compared);
	cJSON_AddNumberToObject(out, "tokens_differing", (double)w->differing);
	if (!report_add_figures(out, &w->figures, w->bench.options.method)) {
		cJSON_Delete(out);
		return complain(STATUS_FAILED, "out of memory for the figures");
	}
	return bench_print_json(out);
}

/* A part's seconds by kind, over the plain session's in the same part: they sum up to 1 over the speed-up. */
static void print_part(const char* name, const struct part_of_run part[BOTH]) {
	const struct part_of_run* p = &part[DEFAULTS];
	const double all = p->seconds,
	             plain = part[PLAIN].seconds * (double)p->tokens / (double)part[PLAIN].tokens;
	const double other = all - p->plain - p->draft - p->verify - p->search;
	printf("%-8s %8.2f %9.3f %8.3f %8.3f %8.3f %8.3f %8.3f %9.3f\n", name, all, ratio(part), p->plain / plain,
	       p->draft / plain, p->verify / plain, p->search / plain, other / plain, all / plain);
}

static void print_seconds(const struct cold_run* w) {
	static const char* const name[QUARTERS] = {"first", "second", "third", "last"};
	printf("\n%-8s %8s %9s %44s\n%-8s %8s %9s %8s %8s %8s %8s %8s %9s\n", "", "", "speed",
	       "seconds over plain's", "quarter", "seconds", "over plain", "plain", "draft", "verify", "search",
	       "other", "all");
	for (int q = 0; q < QUARTERS; q++)
		if (w->quarter[q][DEFAULTS].tokens > 0 && w->quarter[q][PLAIN].tokens > 0)
			print_part(name[q], w->quarter[q]);
	print_part("all", w->all);
}

static void print_drafts(const struct cold_run* w) {
	const struct swiftlet_figures* f = &w->figures;
	printf("\nrounds with a draft %lld (%lld lost), plain steps %lld, M %.2f\n", (long long)f->rounds,
	       (long long)f->lost_rounds, (long long)f->plain_steps, f->mean_generated);
	printf("%-10s %8s %9s %10s\n", "drafter", "rows", "accepted", "predicted");
	for (int i = 0; swiftlet_source_name(i); i++)
		if (f->source[i].rows > 0)
			printf("%-10s %8lld %9lld %10.1f\n", swiftlet_source_name(i), (long long)f->source[i].rows,
			       (long long)f->source[i].accepted, f->source[i].predicted);
	printf("draft steps %lld, alpha %.3f, c %.3f\n", (long long)f->draft_steps, f->alpha, f->c);
	printf("search: %lld proposals, matchness %.3f, skip ratio %.3f\n", (long long)f->optimize_steps,
	       f->matchness, f->skip_ratio);
	const char* note = swiftlet_engine_note(w->bench.engine);
	if (w->copy_joined >= 0)
		printf("the copy for drafting joined by token %lld\n", (long long)w->copy_joined);
	if (note[0])
		printf("%s\n", note);
	draw_figures(stdout, f, w->bench.model->weights.shape.n_blocks);
}

static int tell(const struct cold_run* w) {
	const struct backend* backend = w->bench.engine->backend;
	printf("%s on %s, %d threads: one generation of %d tokens, in turns of %d\n",
	       swiftlet_model_name(w->bench.model), swiftlet_engine_name(w->bench.engine),
	       backend->threads(backend), w->figures.tokens, (int)w->slice);
	printf("  plain          %10.2f tokens/s\n  defaults       %10.2f tokens/s\n", speed(&w->all[PLAIN]),
	       speed(&w->all[DEFAULTS]));
	printf("  over plain     %10.3f\n", ratio(w->all));
	print_seconds(w);
	print_drafts(w);
	printf("\n%lld tokens compared with plain decoding's, %lld differ\n", (long long)w->compared,
	       (long long)w->differing);
	return STATUS_DONE;
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool measure(struct cold_run* w, struct error* error) {
	if (!open_prompt(w, error) || !open_runners(w, error) || !run_slices(w, error))
		return false;
	sum_up(w);
	return true;
}

static int run(struct cold_run* w, const char* model, struct swiftlet_options* options, bool json) {
	struct error error = {{0}};
	if (!options->draft_cache[0])
		snprintf(options->draft_cache, sizeof options->draft_cache, "off"); /* nothing of an earlier run */
	int status = bench_open_as_run(&w->bench, model, options, json);
	if (status == OPTIONS_GO_ON) {
		const bool good = measure(w, &error);
		bench_progress_end();
		status = !good ? complain(STATUS_FAILED, "%s", error.message) : json ? tell_json(w) : tell(w);
	}
	for (int who = 0; who < BOTH; who++)
		runner_close(&w->runner[who]);
	bench_close(&w->bench);
	free(w->id);
	if (status == STATUS_DONE && w->differing > 0)
		return complain(STATUS_FAILED, "%lld tokens differ from plain decoding's", (long long)w->differing);
	return status;
}

int bench_cold_main(int argc, char** argv) {
	struct cold_run w = {.tokens = 1500, .slice = 16, .copy_joined = -1};
	struct swiftlet_options options;
	const char* model_option = NULL;
	bool json = false;
	const struct option option[] = {
	    {"model", 'm', "MODEL", "a model, or synth:SHAPE (builtin)", OPTION_TEXT, &model_option, 0, 0},
	    {"prompt", 'p', "TEXT", "what is continued (some 32 tokens of the benchmarks' own)", OPTION_TEXT,
	     &w.prompt, 0, 0},
	    {"tokens", 'n', "N", "tokens at most, fewer where the text ends (1500)", OPTION_COUNT, &w.tokens, 16,
	     1 << 20},
	    {"slice", 0, "N", "tokens of each before the other's turn (16)", OPTION_COUNT, &w.slice, 1, 1 << 16},
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0},
	};
	struct command_line line = {
	    .name = "bench cold",
	    .usage = "[MODEL|-m MODEL] [-p TEXT] [-n N] [--json] [options]",
	    .about =
	        "One generation from a cold start with the defaults (no store, no copy for drafting of an "
	        "earlier "
	        "run\n"
	        "unless --draft-cache names a folder), and the same by --method vanilla, in one process and in "
	        "turns\n"
	        "of a few tokens, so that both see the same machine: where the memory's speed wanders, whole "
	        "runs\n"
	        "one after the other compare two moments. Prints tokens a second of both and their ratio, by "
	        "quarter\n"
	        "of the run too; where the defaults' time went (plain steps, draft steps, verify passes, the "
	        "search\n"
	        "with all that learning costs, and the making of the copy), and over the plain session's time;\n"
	        "each drafter's tokens, alpha, c, proposals, the mask at the end. What the search's own thread "
	        "does\n"
	        "during the plain session's turns is charged to the defaults. Every token is compared; where "
	        "one\n"
	        "differs the exit status is 1.",
	    .examples = "  swiftlet bench cold -m synth:tinyllama-1.1b,dtype=f16,plant=0.45\n"
	                "  swiftlet bench cold -m synth:tinyllama-1.1b,dtype=q4_k,landscape=graded -n 600 --json",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &options,
	    .max_words = 1,
	};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!method_plans(&options))
		return complain(STATUS_USAGE, "bench cold: --method %s: expected auto or swift",
		                swiftlet_method_name(options.method));
	const char* const model = options_model(&line, model_option);
	return model ? run(&w, model, &options, json) : STATUS_USAGE;
}
