/* A session that is timed pass by pass, and the prompts that it is given. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/synth_value.h"
#include "tools/lab/bench.h"
#include "tools/program/runtime.h"

/* ---- a model on a backend ----------------------------------------------------------------- */

int bench_open(struct bench* bench, const char* model, const struct swiftlet_options* options, bool json) {
	struct swiftlet_options asked = *options;
	if (asked.draft_bits < 0)
		asked.draft_bits = 0;
	return bench_open_as_run(bench, model, &asked, json);
}

int bench_open_as_run(struct bench* bench, const char* model, const struct swiftlet_options* options,
                      bool json) {
	struct error error = {{0}};
	const double started = seconds_now();
	*bench = (struct bench){.options = *options, .json = json};
	bench_progress(0, "opening %s", model);
	bench->model = open_aloud(model, options, error.message, sizeof error.message);
	if (bench->model)
		bench->engine =
		    swiftlet_engine_open(bench->model, &bench->options, error.message, sizeof error.message);
	bench->load_seconds = seconds_now() - started;
	if (bench->engine)
		return OPTIONS_GO_ON;
	bench_progress_end();
	return complain(STATUS_FAILED, "%s", error.message);
}

void bench_close(struct bench* bench) {
	if (bench->engine)
		swiftlet_engine_close(bench->engine);
	if (bench->model)
		swiftlet_model_close(bench->model);
}

void bench_describe(const struct bench* bench, cJSON* out) {
	const struct backend* backend = bench->engine->backend;
	cJSON_AddStringToObject(out, "model", swiftlet_model_name(bench->model));
	cJSON_AddStringToObject(out, "backend", swiftlet_engine_name(bench->engine));
	cJSON_AddNumberToObject(out, "threads", backend->threads(backend));
	cJSON_AddNumberToObject(out, "parameters", bench->model->parameters);
	cJSON_AddNumberToObject(out, "load_seconds", bench->load_seconds);
}

/* ---- prompts ------------------------------------------------------------------------------ */

/* Of GSM8K (MIT licence) and public-domain text (Carroll, 1865; the United States, 1776). */
static const char* const texts[] = {
    ("Question: Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in "
     "May. How many clips did Natalia sell altogether in April and May?\nAnswer:"),
    ("Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to "
     "do: once or twice she had peeped into the book her sister was reading, but it had no pictures or "
     "conversations in it, and where is the use of a book, thought Alice,"),
    ("Question: Weng earns $12 an hour for babysitting. Yesterday, she just did 50 minutes of babysitting. "
     "How much did she earn?\nAnswer:"),
    ("When in the Course of human events, it becomes necessary for one people to dissolve the political "
     "bands which have connected them with another, and to assume among the powers of the earth,"),
};

static bool is_made_up(const struct bench* bench) {
	return bench->model->weights.embedding.synth.kind != SYNTH_NONE;
}

bool bench_prompt(const struct bench* bench, uint64_t index, int32_t* id, int n, struct error* error) {
	const struct tensor* embedding = &bench->model->weights.embedding;
	int have = 0;
	if (is_made_up(bench)) {
		/* where there are two halves, of the first */
		for (uint64_t i = 0; have < n; i++) {
			const uint64_t draw = synth_mix(synth_mix(index) + i) % (uint64_t)embedding->rows;
			if (synth_token_half((uint32_t)draw, embedding->synth.halves) == 0)
				id[have++] = (int32_t)draw;
		}
		return true;
	}
	const char* text = texts[index % (sizeof texts / sizeof *texts)];
	int32_t* all = swiftlet_tokenize(bench->model, text, strlen(text), &have);
	if (!all || have == 0) {
		free(all);
		return error_set(error, "the prompt could not be turned into tokens");
	}
	/* longer prompts repeat it; shorter ones take its end, where the question is */
	for (int i = 0; i < n; i++)
		id[i] = all[(have - n % have + i) % have];
	free(all);
	return true;
}

/* ---- the runner --------------------------------------------------------------------------- */

bool runner_open(struct runner* r, const struct bench* bench, const struct swiftlet_options* options,
                 uint64_t first_prompt, int max_tokens, struct error* error) {
	*r = (struct runner){.bench = bench, .prompt = first_prompt, .max_tokens = max_tokens};
	r->session = swiftlet_session_open(bench->engine, options, error->message, sizeof error->message);
	return r->session != NULL;
}

void runner_close(struct runner* r) {
	if (r->session)
		swiftlet_session_close(r->session);
	free(r->token);
	r->session = NULL;
	r->token = NULL;
}

void runner_reset(struct runner* r) {
	memset(r->pass_seconds, 0, sizeof r->pass_seconds);
	r->seconds = 0;
	r->tokens = r->draft_steps = r->accepted = r->rounds = r->round_tokens = r->proposals = 0;
}

static bool start(struct runner* r, struct error* error) {
	int32_t id[BENCH_PROMPT];
	struct swiftlet_request request;
	if (!r->given && !bench_prompt(r->bench, r->prompt++, id, BENCH_PROMPT, error))
		return false;
	swiftlet_request_default(&request, session_options(r->session));
	request.prompt = r->given ? r->given : id;
	request.n_prompt = r->given ? r->n_given : BENCH_PROMPT;
	request.max_tokens = r->max_tokens;
	memset(&r->last, 0, sizeof r->last);
	r->started = true;
	r->prefilled = false;
	return swiftlet_session_start(r->session, &request, error->message, sizeof error->message);
}

static bool keep(struct runner* r, const struct swiftlet_step* step) {
	if (r->n_token + step->n > r->capacity) {
		r->capacity = 2 * (r->n_token + step->n);
		int32_t* grown = realloc(r->token, (size_t)r->capacity * sizeof *grown);
		if (!grown)
			return false;
		r->token = grown;
	}
	for (int i = 0; i < step->n; i++)
		r->token[r->n_token++] = step->token[i].id;
	return true;
}

/* Adds what the session's own counters have moved by. */
static void count(struct runner* r) {
	struct swiftlet_figures now;
	swiftlet_session_figures(r->session, &now);
	r->draft_steps += now.draft_steps - r->last.draft_steps;
	r->accepted += now.draft_accepted - r->last.draft_accepted;
	r->rounds += now.rounds - r->last.rounds;
	r->round_tokens += now.round_tokens - r->last.round_tokens;
	r->proposals += now.optimize_steps - r->last.optimize_steps;
	r->last = now;
}

/* One step of the session; false when it failed. `timed`: neither a prefill nor the start. */
static bool step(struct runner* r, struct swiftlet_step* out, bool* timed, double* seconds,
                 struct error* error) {
	struct session_work work;
	const double began = seconds_now();
	double passes[WORK_KINDS] = {0};
	bool ended = false;
	*timed = r->prefilled;
	session_begin_step(r->session);
	while (!ended && session_next(r->session, &work)) {
		const double before = seconds_now();
		if (!session_run(r->session, &work, error))
			return false;
		const double took = seconds_now() - before;
		passes[work.kind] += took;
		ended = session_absorb(r->session, &work, took);
	}
	session_output(r->session, out);
	*seconds = seconds_now() - began;
	if (out->n > 0)
		r->prefilled = true;
	for (int k = 0; *timed && k < WORK_KINDS; k++)
		r->pass_seconds[k] += passes[k];
	return true;
}

bool runner_advance(struct runner* r, int n, double* seconds, int64_t* tokens, struct error* error) {
	struct swiftlet_step out;
	bool timed;
	double took;
	for (int64_t have = 0; have < n;) {
		if (!r->started && r->given && r->prefilled)
			return true;
		if (!r->started && !start(r, error))
			return false;
		if (!step(r, &out, &timed, &took, error))
			return false;
		if (!keep(r, &out))
			return error_set(error, "out of memory for the text");
		count(r);
		if (timed) {
			have += out.n;
			*tokens += out.n;
			*seconds += took;
			r->tokens += out.n;
			r->seconds += took;
		}
		if (out.stop == SWIFTLET_CANCELLED)
			return error_set(error, "the generation was cancelled");
		r->started = out.stop == SWIFTLET_RUNNING;
	}
	return true;
}

double runner_pass_seconds(const struct runner* r) {
	double sum = 0;
	for (int k = 0; k < WORK_KINDS; k++)
		sum += r->pass_seconds[k];
	return sum;
}

double runner_host_seconds(const struct runner* r) { return fmax(0, r->seconds - runner_pass_seconds(r)); }

int64_t runner_compare(const struct runner* a, const struct runner* b, int64_t* differing) {
	const int n = a->n_token < b->n_token ? a->n_token : b->n_token;
	for (int i = 0; i < n; i++)
		*differing += a->token[i] != b->token[i];
	return n;
}
