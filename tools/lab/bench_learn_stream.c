/* `swiftlet bench learn -m MODEL -i FILE`: what a stream gets, at stated prices.
 *
 * The prompts of a file in their order, once, with the session's options and the bank behind it as `stream`
 * has them, under the clock that counts each pass at its price (tools/lab/timed_backend.h). After each text
 * the mask that its prompt began with is judged on it, on no clock: that is unseen matchness. With a store a
 * second run is the second pass over the stream. All of it repeats. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "streams/memory/memory.h"
#include "tools/lab/bench_learn.h"
#include "tools/lab/timed_backend.h"
#include "tools/program/prompt_list.h"
#include "tools/program/runtime.h"

enum { SHORTEST = 512, MOST_DRIFTS = 64, MOST_TASKS = 32, MOST_INSTANCES = 8192 };

/* One text; decoding alone: its prefill, which brings the first token, is left out. */
struct served {
	const char* task;
	int tokens, matches, rows; /* of the judgement */
	double seconds;
};

struct sums {
	const char* task;
	int instances, tokens, matches, rows;
	double seconds;
};

struct stream_run {
	const struct bench_stream* how;
	struct bench bench;
	struct timed_backend timed;
	struct prompt_list prompts;
	struct session* session;
	struct memory* memory; /* NULL with --bank off */
	struct memory_watch* watch;
	struct served* served; /* (MOST_INSTANCES), of which n */
	int n, tokens;
	int64_t proposals;
	double learned, plain;          /* seconds in learning; tokens of whole requests, each a plain step */
	double seconds, least;          /* so far; least speed of any beginning of SHORTEST tokens and more */
	int drift[MOST_DRIFTS], drifts; /* after how many tokens a turn was noticed */
	struct memory_counts counts;
};

static void on_event(void* user, int number, enum memory_event event, const char* task) {
	struct stream_run* r = user;
	(void)number, (void)task;
	if (event == MEMORY_DRIFT && r->drifts < MOST_DRIFTS)
		r->drift[r->drifts++] = r->tokens;
}

/* ---- serving ------------------------------------------------------------------------------ */

/* The mask that was in hand when decoding began. */
static bool judge(struct stream_run* r, const struct mask* mask, struct served* s, struct error* error) {
	const double now = r->timed.now;
	const bool good = session_judge(r->session, mask, &s->matches, &s->rows, error);
	r->timed.now = now;
	return good;
}

static void count_step(struct stream_run* r, struct served* s, int tokens, double seconds) {
	s->tokens += tokens;
	s->seconds += seconds;
	r->tokens += tokens;
	r->seconds += seconds;
	if (r->tokens >= SHORTEST)
		r->least = fmin(r->least, r->tokens / r->seconds);
}

static bool decode(struct stream_run* r, struct served* s, struct mask* begun, struct error* error) {
	struct swiftlet_step step;
	bool prefilled = false;
	do {
		const double before = r->timed.now;
		if (!swiftlet_session_step(r->session, &step, error->message, sizeof error->message))
			return false;
		if (r->watch)
			memory_step(r->watch, &step);
		if (prefilled)
			count_step(r, s, step.n, r->timed.now - before);
		else if (step.n > 0)
			*begun = session_mask(r->session, NULL);
		prefilled = prefilled || step.n > 0;
	} while (step.stop == SWIFTLET_RUNNING);
	return step.stop != SWIFTLET_CANCELLED || error_set(error, "the generation was cancelled");
}

static bool serve(struct stream_run* r, const struct prompt* prompt, struct error* error) {
	struct served* const s = &r->served[r->n++];
	struct swiftlet_request request;
	struct swiftlet_figures figures;
	struct mask begun = {.word = {0}};
	swiftlet_request_default(&request, session_options(r->session));
	request.prompt = prompt->id;
	request.n_prompt = prompt->n;
	request.max_tokens = prompt->max_tokens;
	request.task = prompt->task;
	*s = (struct served){.task = prompt->task ? prompt->task : ""};
	if (!swiftlet_session_start(r->session, &request, error->message, sizeof error->message))
		return false;
	if (r->watch)
		memory_begin(r->watch, request.task);
	if (!decode(r, s, &begun, error))
		return false;
	if (r->watch)
		memory_end(r->watch);
	swiftlet_session_figures(r->session, &figures);
	r->proposals += figures.optimize_steps;
	r->learned += figures.seconds.optimize;
	r->plain += (double)(figures.plain_steps + figures.round_tokens);
	return judge(r, &begun, s, error);
}

/* ---- what it says ------------------------------------------------------------------------- */

static double ratio(double a, double b) { return b > 0 ? a / b : (double)NAN; }

static void add(struct sums* sum, const struct served* s) {
	sum->instances++;
	sum->tokens += s->tokens;
	sum->matches += s->matches;
	sum->rows += s->rows;
	sum->seconds += s->seconds;
}

static int sum_tasks(const struct stream_run* r, struct sums sum[MOST_TASKS], struct sums* all) {
	int n = 0;
	*all = (struct sums){.task = "all"};
	for (int i = 0; i < r->n; i++) {
		int at = 0;
		while (at < n && strcmp(sum[at].task, r->served[i].task) != 0)
			at++;
		if (at == MOST_TASKS)
			continue;
		if (at == n)
			sum[n++] = (struct sums){.task = r->served[i].task};
		add(&sum[at], &r->served[i]);
	}
	for (int i = 0; i < n; i++) {
		all->instances += sum[i].instances;
		all->tokens += sum[i].tokens;
		all->matches += sum[i].matches;
		all->rows += sum[i].rows;
		all->seconds += sum[i].seconds;
	}
	return n;
}

/* Speed of the second half of the texts. */
static double late_speed(const struct stream_run* r) {
	struct sums late = {.instances = 0};
	for (int i = r->n / 2; i < r->n; i++)
		add(&late, &r->served[i]);
	return ratio(late.tokens, late.seconds);
}

static double skip_ratio(const struct stream_run* r) {
	const struct mask mask = session_mask(r->session, NULL);
	return (double)mask_count(&mask) / (2 * (r->bench.model->weights.shape.n_blocks - 2));
}

static void print_sums(const struct sums* s) {
	printf("  %-16s %9d %8d %8.3f %10.3f\n", s->task[0] ? s->task : "-", s->instances, s->tokens,
	       ratio(s->tokens, s->seconds), ratio(s->matches, s->rows));
}

static void print_text(const struct stream_run* r, double slope) {
	struct sums sum[MOST_TASKS], all;
	const int n = sum_tasks(r, sum, &all);
	printf(
	    "slope %.3f: speed %.3f, second half %.3f, least %.3f; %lld proposals, learning's share %.4f, skip "
	    "ratio %.2f\n",
	    slope, ratio(all.tokens, all.seconds), late_speed(r), r->least, (long long)r->proposals,
	    ratio(r->learned, r->plain), skip_ratio(r));
	printf("  %lld kinds, %lld recalled, %lld improved, %lld settled, %lld drifts\n",
	       (long long)r->counts.new_kinds, (long long)r->counts.recalled, (long long)r->counts.improved,
	       (long long)r->counts.settled, (long long)r->counts.drifts);
	printf("  %-16s %9s %8s %8s %10s\n", "task", "instances", "tokens", "speed", "matchness");
	for (int i = 0; i < n; i++)
		print_sums(&sum[i]);
	print_sums(&all);
}

static void add_instances(const struct stream_run* r, cJSON* row) {
	cJSON* const list = cJSON_AddArrayToObject(row, "instances");
	for (int i = 0; i < r->n; i++) {
		const struct served* s = &r->served[i];
		cJSON* const one = cJSON_CreateObject();
		cJSON_AddStringToObject(one, "task", s->task);
		cJSON_AddNumberToObject(one, "tokens", s->tokens);
		bench_json_number(one, "seconds", s->seconds);
		cJSON_AddNumberToObject(one, "matches", s->matches);
		cJSON_AddNumberToObject(one, "rows", s->rows);
		cJSON_AddItemToArray(list, one);
	}
}

static void add_row(const struct stream_run* r, double slope, cJSON* rows) {
	struct sums sum[MOST_TASKS], all;
	cJSON* const row = cJSON_CreateObject();
	sum_tasks(r, sum, &all);
	cJSON_AddNumberToObject(row, "slope", slope);
	bench_json_number(row, "speed", ratio(all.tokens, all.seconds));
	bench_json_number(row, "late_speed", late_speed(r));
	bench_json_number(row, "worst_over_plain", r->least);
	bench_json_number(row, "matchness", ratio(all.matches, all.rows));
	bench_json_number(row, "proposals", (double)r->proposals);
	bench_json_number(row, "learning_share", ratio(r->learned, r->plain));
	bench_json_number(row, "skip_ratio", skip_ratio(r));
	bench_json_number(row, "kinds", (double)r->counts.new_kinds);
	bench_json_number(row, "recalled", (double)r->counts.recalled);
	bench_json_number(row, "improved", (double)r->counts.improved);
	bench_json_number(row, "settled", (double)r->counts.settled);
	cJSON_AddItemToObject(row, "drifts_at", cJSON_CreateIntArray(r->drift, r->drifts));
	add_instances(r, row);
	cJSON_AddItemToArray(rows, row);
}

/* ---- a run -------------------------------------------------------------------------------- */

/* From a cold start, or from what the store holds. */
static bool begin(struct stream_run* r, double slope, struct error* error) {
	struct swiftlet_options options = r->how->options;
	const struct price_list priced = prices_of_slope(slope);
	timed_backend_install(&r->timed, r->bench.engine, &priced);
	options.clock = timed_backend_clock;
	options.clock_user = &r->timed;
	r->n = r->tokens = r->drifts = 0;
	r->counts = (struct memory_counts){.recalled = 0};
	r->proposals = 0;
	r->learned = r->plain = r->seconds = 0;
	r->least = INFINITY;
	r->session = swiftlet_session_open(r->bench.engine, &options, error->message, sizeof error->message);
	if (!r->session || !options.bank || !method_plans(&options))
		return r->session != NULL;
	r->memory = memory_open(r->bench.model, swiftlet_model_name(r->bench.model), r->how->store, error);
	if (!r->memory)
		return false;
	memory_on_event(r->memory, on_event, r);
	r->watch = memory_attach(r->memory, r->session, 0);
	return r->watch || error_set(error, "out of memory for the mask bank");
}

static void end(struct stream_run* r) {
	memory_detach(r->watch);
	memory_close(r->memory);
	swiftlet_session_close(r->session);
	timed_backend_remove(&r->timed);
	r->watch = NULL;
	r->memory = NULL;
	r->session = NULL;
}

static bool run(struct stream_run* r, double slope, cJSON* rows, struct error* error) {
	bool good = begin(r, slope, error);
	/* once, or round and round until there are as many tokens as were asked for */
	for (int i = 0; good && (r->how->tokens ? r->tokens < r->how->tokens : i < r->prompts.n); i++) {
		bench_progress((double)i / r->prompts.n, "slope %g", slope);
		good = r->n < MOST_INSTANCES ? serve(r, &r->prompts.prompt[i % r->prompts.n], error)
		                             : error_set(error, "more than %d texts", MOST_INSTANCES);
	}
	bench_progress_end();
	if (r->memory)
		memory_counts(r->memory, &r->counts);
	if (good && rows)
		add_row(r, slope, rows);
	else if (good)
		print_text(r, slope);
	end(r);
	return good;
}

int bench_learn_stream(const struct bench_stream* how) {
	struct stream_run r = {.how = how};
	struct error error = {{0}};
	cJSON* const out = how->json ? cJSON_CreateObject() : NULL;
	cJSON* const rows = how->json ? cJSON_AddArrayToObject(out, "rows") : NULL;
	const int status = bench_open(&r.bench, how->model, &how->options, how->json);
	bool good = status == OPTIONS_GO_ON && prompt_list_read(&r.prompts, r.bench.model, how->input, &error);
	r.served = malloc(MOST_INSTANCES * sizeof *r.served);
	if (good && !r.served)
		good = error_set(&error, "out of memory");
	for (int i = 0; good && i < how->slopes; i++)
		good = run(&r, how->slope[i], rows, &error);
	free(r.served);
	prompt_list_free(&r.prompts);
	bench_close(&r.bench);
	if (good)
		return how->json ? bench_print_json(out) : STATUS_DONE;
	cJSON_Delete(out);
	return status == OPTIONS_GO_ON ? complain(STATUS_FAILED, "%s", error.message) : status;
}
