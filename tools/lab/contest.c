/* Turns by prompt, and by slices. */
#include "tools/lab/contest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/program/generation.h"
#include "tools/program/interrupt.h"
#include "tools/program/runtime.h"

const struct choice every_prompt = {NULL, -1};

/* ---- entering ------------------------------------------------------------------------------- */

bool contest_enter(struct contest* t, const char* name, const struct swiftlet_options* options,
                   struct error* why, struct error* error) {
	struct contender* c = &t->contender[t->n];
	if (t->n == MOST_CONTENDERS)
		return error_set(error, "more than %d to compare", MOST_CONTENDERS);
	snprintf(c->name, sizeof c->name, "%s", name);
	c->session = swiftlet_session_open(t->bench.engine, options, why->message, sizeof why->message);
	c->cost = t->bench.engine->cost;
	c->answer = calloc((size_t)t->prompts.n + 1, sizeof *c->answer);
	t->n++;
	return c->answer || error_set(error, "out of memory for the figures");
}

void contest_close(struct contest* t) {
	for (int i = 0; i < t->n; i++) {
		if (t->contender[i].session)
			swiftlet_session_close(t->contender[i].session);
		free(t->contender[i].answer);
	}
	prompt_list_free(&t->prompts);
}

/* ---- running -------------------------------------------------------------------------------- */

static double cpu_seconds(void) {
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* Decoding begins when the prefill has brought a token. */
struct watch {
	struct generation generation;
	const struct swiftlet_options* options;
	bool begun;
	double seconds, cpu;
};

static void on_step(void* user) {
	struct watch* w = user;
	if (w->begun || w->generation.n_tokens == 0)
		return;
	w->begun = true;
	w->seconds = options_clock(w->options);
	w->cpu = cpu_seconds();
}

static void take(struct answer* a, const struct watch* w) {
	const struct swiftlet_figures* f = &w->generation.figures;
	*a = (struct answer){.prompts = 1,
	                     .tokens = f->tokens,
	                     .timed = f->tokens - 1,
	                     .rounds = f->rounds,
	                     .round_tokens = f->round_tokens,
	                     .draft_steps = f->draft_steps,
	                     .accepted = f->draft_accepted,
	                     .full_passes = f->full_passes,
	                     .verify_passes = f->verify_passes,
	                     .rows = f->verified_rows,
	                     .seconds = options_clock(w->options) - w->seconds,
	                     .cpu = cpu_seconds() - w->cpu,
	                     .draft_seconds = f->seconds.draft};
	memcpy(a->ctar, f->ctar_passes, sizeof a->ctar);
	for (int i = 0; i < SWIFTLET_SOURCES; i++) {
		a->source_rows[i] = f->source[i].rows;
		a->source_accepted[i] = f->source[i].accepted;
	}
}

/* Which may be from before the copy for drafting was there: another contender's passes have made it since. */
static void take_prices(struct engine* engine, const struct cost_model* cost) {
	engine->cost = *cost;
	if (engine->low_joined)
		cost_take_low(&engine->cost, &engine->low.table);
}

static bool answer(struct contest* t, int which, int prompt, struct watch* w, struct error* error) {
	struct contender* c = &t->contender[which];
	const struct prompt* p = &t->prompts.prompt[prompt];
	struct swiftlet_request request;
	w->options = &t->bench.options;
	w->generation.on_step = on_step;
	w->generation.on_user = w;
	swiftlet_request_default(&request, session_options(c->session));
	request.prompt = p->id;
	request.n_prompt = p->n;
	request.max_tokens = p->max_tokens;
	request.temperature = t->temperature;
	request.sequence = t->apart ? (uint64_t)prompt : 0;
	if (t->apart)
		take_prices(t->bench.engine, &c->cost);
	if (!generation_run(&w->generation, c->session, &request, error))
		return false;
	take(&c->answer[prompt], w);
	c->cost = t->bench.engine->cost;
	c->exit_block = w->generation.figures.exit_block;
	return true;
}

/* Whether a text's last tokens stand earlier in it. */
static bool ends_in_loop(const int32_t* text, int n) {
	enum { LOOP = 64 };
	for (int from = 0; from + LOOP < n; from++)
		if (memcmp(text + from, text + n - LOOP, LOOP * sizeof *text) == 0)
			return true;
	return false;
}

static int64_t differing(const struct generation* a, const struct generation* b) {
	int64_t n = abs(a->n_tokens - b->n_tokens);
	for (int i = 0; i < a->n_tokens && i < b->n_tokens; i++)
		n += a->token[i] != b->token[i];
	return n;
}

static bool one_prompt(struct contest* t, int prompt, struct error* error) {
	struct watch watch[MOST_CONTENDERS] = {{.generation = {.show = NULL}}};
	bool good = true;
	for (int i = 0; good && i < t->n; i++) {
		const int which = (prompt + i) % t->n;
		good = !t->contender[which].session || answer(t, which, prompt, &watch[which], error);
	}
	const struct generation* plain = &watch[0].generation;
	for (int i = 0; good && i < t->n; i++)
		if (t->contender[i].session)
			t->contender[i].answer[prompt].differing = differing(plain, &watch[i].generation);
	t->loops[prompt] = good && ends_in_loop(plain->token, plain->n_tokens);
	for (int i = 0; i < t->n; i++)
		generation_free(&watch[i].generation);
	return good;
}

static void note_task(struct contest* t, int prompt) {
	const char* of = t->prompts.prompt[prompt].task;
	int at = 0;
	while (at < t->tasks && strcmp(t->task[at], of ? of : "") != 0)
		at++;
	if (at == t->tasks && at < MOST_TASKS)
		t->task[t->tasks++] = of ? of : "";
}

bool contest_run(struct contest* t, struct error* error) {
	const int most = t->most_prompts > 0 ? (int)t->most_prompts : MOST_PROMPTS, n = least(t->prompts.n, most);
	const double began = options_clock(&t->bench.options);
	if (n == 0)
		return error_set(error, "no prompt to measure on: found none that the context holds");
	for (int i = 0; i < n && !interrupted(); i++, t->asked++) {
		if (i > 0 && t->most_seconds > 0 &&
		    options_clock(&t->bench.options) - began > (double)t->most_seconds)
			break;
		bench_progress((double)i / n, "%s at temperature %g: prompt %d of %d by %d",
		               swiftlet_model_name(t->bench.model), t->temperature, i + 1, n, t->n);
		if (!one_prompt(t, i, error))
			return false;
		note_task(t, i);
	}
	return true;
}

/* ---- figures -------------------------------------------------------------------------------- */

double answer_speed(const struct answer* a) {
	return a->seconds > 0 ? (double)a->timed / a->seconds : (double)NAN;
}

/* A text of one token came with the prefill: there is nothing to time. */
static bool is_chosen(const struct contest* t, int prompt, struct choice choice) {
	const char* task = t->prompts.prompt[prompt].task;
	return t->contender[0].answer[prompt].timed > 0 &&
	       (!choice.task || strcmp(task ? task : "", choice.task) == 0) &&
	       (choice.loops < 0 || t->loops[prompt] == choice.loops);
}

static void add(struct answer* sum, const struct answer* a) {
	sum->prompts += a->prompts;
	sum->tokens += a->tokens;
	sum->timed += a->timed;
	sum->differing += a->differing;
	sum->rounds += a->rounds;
	sum->round_tokens += a->round_tokens;
	sum->draft_steps += a->draft_steps;
	sum->accepted += a->accepted;
	sum->full_passes += a->full_passes;
	sum->verify_passes += a->verify_passes;
	sum->rows += a->rows;
	sum->seconds += a->seconds;
	sum->cpu += a->cpu;
	sum->draft_seconds += a->draft_seconds;
	for (int w = 0; w < SWIFTLET_CTAR; w++)
		sum->ctar[w] += a->ctar[w];
	for (int i = 0; i < SWIFTLET_SOURCES; i++) {
		sum->source_rows[i] += a->source_rows[i];
		sum->source_accepted[i] += a->source_accepted[i];
	}
}

struct answer contest_sum(const struct contest* t, int contender, struct choice choice) {
	struct answer sum = {0};
	for (int p = 0; p < t->asked; p++)
		if (is_chosen(t, p, choice))
			add(&sum, &t->contender[contender].answer[p]);
	return sum;
}

double contest_over_plain(const struct contest* t, int contender, struct choice choice) {
	const struct answer of = contest_sum(t, contender, choice), plain = contest_sum(t, 0, choice);
	return answer_speed(&of) / answer_speed(&plain);
}

double contest_median_over_plain(const struct contest* t, int contender, struct choice choice) {
	double ratio[MOST_PROMPTS];
	int n = 0;
	for (int p = 0; p < t->asked; p++) {
		const double value =
		    answer_speed(&t->contender[contender].answer[p]) / answer_speed(&t->contender[0].answer[p]);
		if (is_chosen(t, p, choice) && isfinite(value))
			ratio[n++] = value;
	}
	return bench_median(ratio, n);
}

/* ---- by slices ------------------------------------------------------------------------------ */

bool ways_turn(struct way* way, int n, int tokens, int turn, int slice, struct error* error) {
	double each[MOST_CONTENDERS] = {0}; /* seconds a token */
	for (int k = 0; k < n; k++) {
		struct way* w = &way[(turn + k) % n];
		double seconds = 0;
		int64_t had = 0;
		if (w->absent)
			continue;
		if (!runner_advance(&w->runner, tokens, &seconds, &had, error))
			return false;
		each[w - way] = seconds / (double)had;
		w->seconds += seconds;
		w->tokens += had;
	}
	for (int k = 0; k + 1 < n; k++)
		way[k].ratio[slice] = each[k] > 0 ? each[n - 1] / each[k] : NAN;
	return true;
}

void ways_reset(struct way* way, int n) {
	for (int k = 0; k < n; k++) {
		if (!way[k].absent)
			runner_reset(&way[k].runner);
		way[k].seconds = 0;
		way[k].tokens = 0;
	}
}

static double share(int64_t a, int64_t b) { return b > 0 ? (double)a / (double)b : (double)NAN; }

void ways_judge(struct way* way, int n, int slices, int64_t* compared, int64_t* differing_tokens) {
	const struct runner* plain = &way[n - 1].runner;
	for (struct way* w = way; w < way + n - 1; w++) {
		const struct runner* r = &w->runner;
		if (w->absent)
			continue;
		const double drafting = r->pass_seconds[WORK_DRAFT] + r->pass_seconds[WORK_DRAFT_LOOP];
		w->mean_generated = share(r->round_tokens, r->rounds);
		w->alpha = share(r->accepted, r->draft_steps);
		w->c = drafting / (double)r->draft_steps / (runner_pass_seconds(plain) / (double)plain->tokens);
		const double m = w->mean_generated, a = w->alpha;
		w->expected = a > 0 ? m * a / ((m - 1) * w->c + a) : (double)NAN;
		w->speedup = bench_median(w->ratio, slices);
		w->lower = w->ratio[slices / 4];
		w->upper = w->ratio[slices - 1 - slices / 4];
		*compared += runner_compare(r, plain, differing_tokens);
	}
}

void ways_close(struct way* way, int n) {
	for (int k = 0; k < n; k++)
		runner_close(&way[k].runner);
}

void way_json(const struct way* w, cJSON* out) {
	bench_json_number(out, "speedup", w->speedup);
	bench_json_number(out, "speedup_lower_quartile", w->lower);
	bench_json_number(out, "speedup_upper_quartile", w->upper);
	bench_json_number(out, "M", w->mean_generated);
	bench_json_number(out, "alpha", w->alpha);
	bench_json_number(out, "c", w->c);
	bench_json_number(out, "expected_speedup", w->expected);
}
