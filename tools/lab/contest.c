/* Turns by prompt, and by slices. */
#include "tools/lab/contest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/program/completion.h"
#include "tools/program/interrupt.h"

const struct prompt_choice every_prompt = {NULL, -1};

/* ---- a session and its text ------------------------------------------------------------------ */

static double cpu_seconds(void) {
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static struct answer answer_of(const struct swiftlet_figures* f, double seconds, double cpu) {
	const double passes = f->seconds.draft + f->seconds.plain + f->seconds.optimize + f->seconds.verify;
	struct answer a = {.prompts = 1,
	                   .tokens = f->tokens,
	                   .timed = f->tokens - 1,
	                   .rounds = (double)f->verify_passes,
	                   .round_tokens = (double)f->round_tokens,
	                   .draft_steps = (double)f->draft_steps,
	                   .accepted = (double)f->draft_accepted,
	                   .full_passes = (double)f->full_passes,
	                   .verify_passes = (double)f->verify_passes,
	                   .plain_steps = (double)f->plain_steps,
	                   .rows = (double)f->verified_rows,
	                   .seconds = seconds,
	                   .cpu = cpu,
	                   .draft = f->seconds.draft,
	                   .plain = f->seconds.plain,
	                   .search = f->seconds.optimize,
	                   .host = seconds - passes};
	for (int w = 0; w < SWIFTLET_CTAR; w++)
		a.ctar[w] = (double)f->ctar_passes[w];
	for (int i = 0; i < SWIFTLET_SOURCES; i++) {
		a.source_rows[i] = (double)f->source[i].rows;
		a.source_accepted[i] = (double)f->source[i].accepted;
	}
	return a;
}

/* times: 1, or -1 to take away. */
static void add_figures(struct answer* sum, const struct answer* a, int times) {
	double* const to = (double*)sum;
	const double* const of = (const double*)a;
	for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
		to[i] += times * of[i];
}

static bool open_session(struct way* w, const struct runtime* bench, const struct swiftlet_options* options,
                         struct error* error) {
	w->bench = bench;
	w->session = swiftlet_session_open(bench->engine, options, error->message, sizeof error->message);
	return w->session != NULL;
}

static bool begin_prompt(struct way* w, const struct swiftlet_request* request, struct error* error) {
	add_figures(&w->ended, &w->now, 1);
	w->now = (struct answer){.prompts = 0};
	w->seconds = w->cpu = 0;
	w->running = swiftlet_session_start(w->session, request, error->message, sizeof error->message);
	return w->running;
}

/* Decoding begins when the prefill has given a token. */
static bool step_contender(struct way* w, struct error* error) {
	struct swiftlet_step step;
	struct swiftlet_figures figures;
	const struct swiftlet_options* const options = &w->bench->options;
	const double began = options_clock(options), cpu = cpu_seconds();
	if (!swiftlet_session_step(w->session, &step, error->message, sizeof error->message))
		return false;
	w->seconds += w->now.tokens > 0 ? options_clock(options) - began : 0;
	w->cpu += w->now.tokens > 0 ? cpu_seconds() - cpu : 0;
	swiftlet_session_figures(w->session, &figures);
	if (figures.tokens > 0)
		w->now = answer_of(&figures, w->seconds, w->cpu);
	w->exit_block = figures.exit_block;
	w->running = step.stop == SWIFTLET_RUNNING;
	for (int i = 0; i < step.n; i++)
		if (!token_list_append(&w->tokens, step.token[i].id))
			return error_set(error, "out of memory for the text");
	return true;
}

/* ---- entering ------------------------------------------------------------------------------- */

bool contest_enter(struct contest* t, const char* name, const struct swiftlet_options* options,
                   struct error* why, struct error* error) {
	struct way* w = &t->way[t->n];
	if (t->n == MOST_CONTENDERS)
		return error_set(error, "more than %d to compare", MOST_CONTENDERS);
	snprintf(w->name, sizeof w->name, "%s", name);
	open_session(w, t->bench, options, why);
	w->cost = t->bench->engine->cost;
	w->answer = calloc((size_t)t->prompts.n + 1, sizeof *w->answer);
	t->n++;
	return w->answer || error_set(error, "out of memory for the figures");
}

void contest_close(struct contest* t) {
	ways_close(t->way, t->n);
	prompt_list_free(&t->prompts);
}

/* ---- running -------------------------------------------------------------------------------- */

/* Costs may be from before the draft weights were ready, because another contender's passes have made them
 * since. */
static void take_costs(struct engine* engine, const struct cost_model* cost) {
	engine->cost = *cost;
	if (engine->draft_weights_ready)
		cost_use_draft_weights(&engine->cost, &engine->draft_weights.table);
}

static bool answer_prompt(struct contest* t, int which, int prompt, struct error* error) {
	struct way* w = &t->way[which];
	const struct prompt* p = &t->prompts.prompt[prompt];
	struct swiftlet_request request =
	    request_for(session_options(w->session), p->id, p->n, p->max_tokens, NULL);
	request.temperature = t->temperature;
	request.sequence = t->apart ? (uint64_t)prompt : 0;
	if (t->apart)
		take_costs(t->bench->engine, &w->cost);
	w->tokens.n = 0;
	if (!begin_prompt(w, &request, error))
		return false;
	while (w->running) {
		if (interrupted())
			swiftlet_session_cancel(w->session);
		if (!step_contender(w, error))
			return false;
	}
	w->answer[prompt] = w->now;
	w->cost = t->bench->engine->cost;
	return true;
}

/* True when a text's last tokens occur earlier in it. */
static bool ends_in_loop(const int32_t* text, int n) {
	enum { LOOP = 64 };
	for (int from = 0; from + LOOP < n; from++)
		if (memcmp(text + from, text + n - LOOP, LOOP * sizeof *text) == 0)
			return true;
	return false;
}

/* Among the tokens that both have. */
static int count_differing(const struct way* a, const struct way* b) {
	int n = 0;
	for (int i = 0; i < least(a->tokens.n, b->tokens.n); i++)
		n += a->tokens.id[i] != b->tokens.id[i];
	return n;
}

static bool one_prompt(struct contest* t, int prompt, struct error* error) {
	const struct way* plain = &t->way[0];
	for (int i = 0; i < t->n; i++) {
		const int which = (prompt + i) % t->n;
		if (t->way[which].session && !answer_prompt(t, which, prompt, error))
			return false;
	}
	for (struct way* w = t->way; w < t->way + t->n; w++)
		if (w->session)
			w->answer[prompt].differing = count_differing(plain, w) + abs(plain->tokens.n - w->tokens.n);
	t->loops[prompt] = ends_in_loop(plain->tokens.id, plain->tokens.n);
	return true;
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
	const int most = t->most_prompts > 0 ? t->most_prompts : MOST_PROMPTS, n = least(t->prompts.n, most);
	if (n == 0)
		return error_set(error, "no prompt to measure on: found none that the context holds");
	for (int i = 0; i < n && !interrupted(); i++, t->asked++) {
		progress_show((double)i / n, "%s at temperature %g: prompt %d of %d by %d",
		              swiftlet_model_name(t->bench->model), t->temperature, i + 1, n, t->n);
		if (!one_prompt(t, i, error))
			return false;
		note_task(t, i);
	}
	return true;
}

/* ---- figures -------------------------------------------------------------------------------- */

double answer_speed(const struct answer* a) { return a->seconds > 0 ? a->timed / a->seconds : (double)NAN; }

/* A text of one token came with the prefill, so there is nothing to time. */
static bool is_chosen(const struct contest* t, int prompt, struct prompt_choice choice) {
	const char* task = t->prompts.prompt[prompt].task;
	return t->way[0].answer[prompt].timed > 0 &&
	       (!choice.task || strcmp(task ? task : "", choice.task) == 0) &&
	       (choice.loops < 0 || t->loops[prompt] == choice.loops);
}

void answer_json(const struct answer* a, double plain_step_seconds, cJSON* out) {
	const double m = quotient(a->round_tokens, a->rounds);
	const double alpha = quotient(a->accepted, a->draft_steps);
	const double c = quotient(a->draft, a->draft_steps) / plain_step_seconds;
	cJSON_AddNumberToObject(out, "M", m);
	cJSON_AddNumberToObject(out, "alpha", alpha);
	cJSON_AddNumberToObject(out, "c", c);
	cJSON_AddNumberToObject(out, "expected_speedup",
	                        alpha > 0 ? m * alpha / ((m - 1) * c + alpha) : (double)NAN);
}

struct answer contest_sum(const struct contest* t, int which, struct prompt_choice choice) {
	struct answer sum = {0};
	for (int p = 0; p < t->asked; p++)
		if (is_chosen(t, p, choice))
			add_figures(&sum, &t->way[which].answer[p], 1);
	return sum;
}

double contest_over_plain(const struct contest* t, int which, struct prompt_choice choice) {
	const struct answer of = contest_sum(t, which, choice), plain = contest_sum(t, 0, choice);
	return answer_speed(&of) / answer_speed(&plain);
}

double contest_median_over_plain(const struct contest* t, int which, struct prompt_choice choice) {
	double ratio[MOST_PROMPTS];
	int n = 0;
	for (int p = 0; p < t->asked; p++) {
		const double value = answer_speed(&t->way[which].answer[p]) / answer_speed(&t->way[0].answer[p]);
		if (is_chosen(t, p, choice) && isfinite(value))
			ratio[n++] = value;
	}
	return bench_median(ratio, n);
}

/* ---- by slices ------------------------------------------------------------------------------ */

bool way_open(struct way* w, const struct runtime* bench, const struct swiftlet_options* options,
              uint64_t prompt, struct error* error) {
	w->prompt = prompt;
	return open_session(w, bench, options, error);
}

static bool begin_next(struct way* w, struct error* error) {
	int32_t id[WAY_PROMPT];
	if (!bench_prompt(w->bench, w->prompt++, id, WAY_PROMPT, error))
		return false;
	const struct swiftlet_request request =
	    request_for(session_options(w->session), id, WAY_PROMPT, 512, NULL);
	return begin_prompt(w, &request, error);
}

static struct answer all_of(const struct way* w) {
	struct answer sum = w->ended;
	add_figures(&sum, &w->now, 1);
	return sum;
}

bool way_advance(struct way* w, int n, struct answer* taken, struct error* error) {
	const struct answer before = all_of(w);
	do {
		if ((!w->running && !begin_next(w, error)) || !step_contender(w, error))
			return false;
		*taken = all_of(w);
		add_figures(taken, &before, -1);
	} while (taken->timed < n);
	return true;
}

struct answer way_sum(const struct way* w) {
	struct answer sum = all_of(w);
	add_figures(&sum, &w->before, -1);
	return sum;
}

bool ways_turn(struct way* way, int n, int tokens, int turn, int slice, struct error* error) {
	double each[MOST_WAYS] = {0}; /* seconds a token */
	for (int k = 0; k < n; k++) {
		struct way* w = &way[(turn + k) % n];
		struct answer taken;
		if (!w->session)
			continue;
		if (!way_advance(w, tokens, &taken, error))
			return false;
		each[w - way] = taken.seconds / taken.timed;
	}
	for (int k = 0; k + 1 < n; k++)
		way[k].ratio[slice] = quotient(each[n - 1], each[k]);
	return true;
}

void ways_reset(struct way* way, int n) {
	for (struct way* w = way; w < way + n; w++)
		if (w->session)
			w->before = all_of(w);
}

void ways_compare(const struct way* way, int n, int64_t* compared, int64_t* differing_tokens) {
	const struct way* plain = &way[n - 1];
	for (const struct way* w = way; w < plain; w++) {
		*compared += least(w->tokens.n, plain->tokens.n);
		*differing_tokens += count_differing(w, plain);
	}
}

void ways_close(struct way* way, int n) {
	for (struct way* w = way; w < way + n; w++) {
		if (w->session)
			swiftlet_session_close(w->session);
		token_list_free(&w->tokens);
		free(w->answer);
	}
}

void way_json(struct way* w, const struct way* plain, int slices, cJSON* out) {
	const struct answer sum = way_sum(w), of_plain = way_sum(plain);
	cJSON_AddNumberToObject(out, "speedup", bench_median(w->ratio, slices));
	cJSON_AddNumberToObject(out, "speedup_lower_quartile", w->ratio[slices / 4]);
	cJSON_AddNumberToObject(out, "speedup_upper_quartile", w->ratio[slices - 1 - slices / 4]);
	answer_json(&sum, quotient(of_plain.plain, of_plain.plain_steps), out);
}
