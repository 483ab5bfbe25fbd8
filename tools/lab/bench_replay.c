/* `swiftlet bench replay`: the gain of drafting at given costs, without timing anything.
 *
 * A stream of prompts is decoded. Verifications run on the real model, or follow recorded answers. But the
 * cost of a pass comes from a table: v(n) of a verify pass of n rows and c of a draft pass, in plain steps,
 * as measured elsewhere for other weights. The planner decides by these costs, within the session's budget,
 * and its figures repeat. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/speculate.h"
#include "core/draft/mask.h"
#include "core/draft/retrieval.h"
#include "core/draft/round.h"
#include "streams/jsonl.h"
#include "tools/lab/bench.h"
#include "tools/lab/cost_table.h"
#include "tools/lab/state_texts.h"
#include "tools/program/interrupt.h"

struct sums {
	int64_t tokens, rounds, rows, draft_passes;
	double cost;
	/* draft tokens by source: verified rows, their acceptance estimates, accepted rows */
	struct {
		int64_t rows, accepted;
		double expected;
	} of[DRAFTER_COUNT];
};

struct replay {
	struct bench_part part;
	const char *input, *cost_text, *drafter_text, *mask_path, *answer_path;
	int pool_tokens, most_instances;
	struct cost_table costs;
	unsigned which;
	struct mask skip;
	struct cache* cache; /* NULL: answers were recorded, and no pass is run */
	FILE* answers;
	char* line;
	size_t line_capacity;
	int32_t* recorded; /* (n_recorded) the recorded answer to the present prompt */
	int n_recorded, n_prompt;
	struct speculation_budget budget;
	struct drafter_set set;
	struct acceptance acceptance;
	struct planner planner;
	struct retrieval_pool* pool;
	struct sums sums;
	int instances, left_out;
	int32_t* text; /* (context + 1) */
	int n, context;
	struct round round;
};

/* ---- costs --------------------------------------------------------------------------------- */

static const double default_c = 0.6;

static bool read_cost_table(const char* text, struct cost_table* costs, struct error* error) {
	struct cost_list list;
	if (!cost_list_read(&list, text, error))
		return false;
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs->verify[n] = (float)list.verify[n];
	for (int i = 0; i < DRAFTER_COUNT; i++)
		costs->pass[i] = costs->pass_worst[i] = (float)(isnan(list.draft) ? default_c : list.draft);
	return true;
}

/* ---- decoding ------------------------------------------------------------------------------- */

static bool verify_round(struct replay* r, struct error* error) {
	struct pass pass;
	struct backend* const backend = r->cache->backend;
	round_start(&r->round, r->cache, NULL);
	round_verify_pass(&r->round, &r->planner.tree, WANT_TOP, &pass);
	if (!backend->run(backend, &pass, error))
		return false;
	round_judge(&r->round);
	round_commit(&r->round);
	return true;
}

/* The target's tokens along the recorded answer. Its tokens elsewhere are unknown, and match nothing. */
static void verify_recorded(struct replay* r) {
	const struct tree* tree = &r->planner.tree;
	const int32_t* const rest = r->recorded + (r->n - r->n_prompt);
	struct result* const out = r->round.out;
	for (int i = 0; i < tree->n; i++) {
		out[i].token = -1;
		out[i].top = 0;
	}
	for (int row = 0, d = 0; row >= 0; d++) {
		out[row].token = rest[d];
		row = tree_child(tree, row, rest[d]);
	}
	tree_verify(tree, out, &r->round.verdict);
}

/* Runs draft passes as long as the planner wants them; returns their cost. */
static bool draft_round(struct replay* r, double* cost, struct error* error) {
	struct planner* p = &r->planner;
	struct backend* const backend = r->part.bench.engine->backend;
	const struct draft_weights* quantized = engine_draft_weights(r->part.bench.engine);
	bool quantized_head = false;
	const struct mask layers =
	    quantized ? draft_weights_sub_layers(quantized, &r->skip, &quantized_head) : (struct mask){0};
	for (;;) {
		struct pass pass;
		const struct plan_action action = planner_next(p);
		if (action.kind == PLAN_VERIFY)
			return true;
		const struct drafter* drafter = drafters[action.source];
		void* state = r->set.state[action.source];
		drafter->fill(state, &p->tree, action.head, action.carry, &pass);
		pass.quantized = quantized ? &layers : NULL;
		pass.quantized_head = quantized_head;
		pass.levels = quantized && quantized->format.columns ? &r->part.bench.engine->levels : NULL;
		if (!backend->run(backend, &pass, error))
			return false;
		drafter->take(state);
		const float c = p->costs.pass[action.source] * p->costs.verify[pass.n];
		planner_passed(p, c);
		*cost += (double)c;
		r->sums.draft_passes++;
	}
}

static bool decode_round(struct replay* r, int end, bool* more, struct error* error) {
	struct planner* p = &r->planner;
	const struct model* model = r->part.bench.model;
	const int left = end - r->n - 1;
	const double budget = 1 + (budget_round_limit(&r->budget) - 1) / 2;
	const struct round_limits limits = {SLICE_ROWS, left < MAX_DRAFT ? left : MAX_DRAFT, (float)budget};
	const struct verdict* const verdict = &r->round.verdict;
	double cost = 0;
	if (r->set.state[SOURCE_mask]) {
		const struct mask_round round = {.segment = {.cache = r->cache},
		                                 .skip = &r->skip,
		                                 .end_token = model->end_token,
		                                 .n_end_tokens = model->n_end_tokens};
		mask_start(r->set.state[SOURCE_mask], &round);
	}
	planner_start(p, r->text[r->n - 1], &limits);
	if (!draft_round(r, &cost, error) || (r->cache && !verify_round(r, error)))
		return false;
	if (!r->cache)
		verify_recorded(r);
	cost += (double)p->costs.verify[p->tree.n];
	const int before = r->n;
	for (int i = 0; i <= verdict->accepted && *more; i++) {
		const int32_t token = r->round.out[verdict->path[i]].token;
		r->text[r->n++] = token;
		*more = !model_is_end(model, token) && r->n < end;
	}
	planner_see(p, verdict, r->round.out, r->n - before, (float)cost);
	budget_round(&r->budget, cost, r->n - before);
	drafter_set_append(&r->set, r->text + before, r->n - before);
	for (int row = 1; row < p->tree.n; row++) {
		r->sums.of[p->tree.source[row]].rows++;
		r->sums.of[p->tree.source[row]].expected += (double)p->tree.chance[row];
	}
	for (int i = 1; i <= verdict->accepted; i++)
		r->sums.of[p->tree.source[verdict->path[i]]].accepted++;
	r->sums.tokens += r->n - before;
	r->sums.rounds++;
	r->sums.rows += p->tree.n;
	r->sums.cost += cost;
	return true;
}

static bool decode_prompt(struct replay* r, int max_tokens, struct error* error) {
	int end = r->n + max_tokens < r->context ? r->n + max_tokens : r->context;
	r->n_prompt = r->n;
	if (!r->cache) {
		end = r->n + r->n_recorded < end ? r->n + r->n_recorded : end;
		r->text[r->n++] = r->recorded[0];
	} else {
		r->cache->backend->truncate(r->cache, 0);
		if (!state_text_prefill(r->cache, r->text, r->n, &r->text[r->n], error))
			return false;
		r->n++;
	}
	drafter_set_begin(&r->set, &(struct drafter_text){.prompt = r->text, .n_prompt = r->n});
	bool more = !model_is_end(r->part.bench.model, r->text[r->n - 1]) && r->n < end;
	while (more)
		if (!decode_round(r, end, &more, error))
			return false;
	if (r->pool)
		retrieval_pool_add(r->pool, r->text, r->n);
	r->instances++;
	return true;
}

static bool take_prompt(struct replay* r, const struct instance* instance, struct error* error) {
	struct token_list tokens = {0};
	const bool good = instance_tokens(r->part.bench.model, instance, false, &tokens, error);
	const bool fits = tokens.n + 1 < r->context;
	if (good && fits)
		memcpy(r->text, tokens.id, (size_t)tokens.n * sizeof *r->text);
	r->n = tokens.n;
	token_list_free(&tokens);
	return good && (fits || error_set(error, "line %ld: the prompt has %d tokens, but the context holds %d",
	                                  instance->line, r->n, r->context));
}

/* The next answer, as `swiftlet stream -o` wrote it for the same prompts. */
static bool take_answer(struct replay* r, const struct instance* instance, struct error* error) {
	cJSON* line = NULL;
	while (!cJSON_IsArray(cJSON_GetObjectItem(line, "tokens"))) {
		cJSON_Delete(line);
		if (getline(&r->line, &r->line_capacity, r->answers) < 0)
			return error_set(error, "%s: no answer for the prompt on line %ld", r->answer_path,
			                 instance->line);
		line = cJSON_Parse(r->line);
	}
	char* const id = cJSON_PrintUnformatted(cJSON_GetObjectItem(line, "id"));
	const bool same = !instance->id || (id && strcmp(id, instance->id) == 0);
	free(id);
	const cJSON* token;
	r->n_recorded = 0;
	cJSON_ArrayForEach (token, cJSON_GetObjectItem(line, "tokens"))
		if (r->n_recorded < r->context)
			r->recorded[r->n_recorded++] = token->valueint;
	cJSON_Delete(line);
	return (same && r->n_recorded > 0) ||
	       error_set(error, "%s: the answer for line %ld has another id or no tokens", r->answer_path,
	                 instance->line);
}

static bool replay_stream(struct replay* r, FILE* file, struct error* error) {
	struct jsonl_reader reader = {.file = file};
	struct instance instance;
	enum jsonl_status status;
	bool good = true;
	while (good && !interrupted() && r->instances < r->most_instances &&
	       (status = jsonl_next(&reader, &instance, error)) != JSONL_END) {
		progress_show(0, "instance %d, %lld tokens", r->instances + 1, (long long)r->sums.tokens);
		if (status == JSONL_INSTANCE && take_prompt(r, &instance, error))
			good = (r->cache || take_answer(r, &instance, error)) &&
			       decode_prompt(r, instance.max_tokens, error);
		else {
			progress_end();
			complain(STATUS_FAILED, "left out: %s", error->message);
			r->left_out++;
		}
		instance_free(&instance);
	}
	jsonl_free(&reader);
	return good && (r->instances > 0 || error_set(error, "%s: no prompt that can be decoded", r->input));
}

/* ---- opening and report --------------------------------------------------------------------- */

static bool open_drafters(struct replay* r, struct error* error) {
	const struct model_shape* shape = &r->part.bench.model->weights.shape;
	const struct drafter_setup setup = {.context = r->context + 1, .vocab = shape->vocab};
	r->text = calloc((size_t)r->context + MAX_DRAFT + 2, sizeof *r->text);
	r->recorded = calloc((size_t)r->context, sizeof *r->recorded);
	if (!r->answers && !(r->cache = text_cache_open(&r->part.bench, r->context, error)))
		return false;
	if (r->pool_tokens > 0)
		r->pool = retrieval_pool_open(r->pool_tokens);
	if (!r->text || !r->recorded || !drafter_set_open(&r->set, r->which, &setup) ||
	    (r->pool_tokens > 0 && !r->pool))
		return error_set(error, "out of memory");
	if (r->set.state[SOURCE_retrieval])
		retrieval_use_pool(r->set.state[SOURCE_retrieval], r->pool);
	budget_open(&r->budget, 0);
	acceptance_open(&r->acceptance);
	planner_open(&r->planner, &r->set, &r->acceptance);
	planner_set_costs(&r->planner, &r->costs);
	return true;
}

static void close_drafters(struct replay* r) {
	drafter_set_close(&r->set);
	retrieval_pool_close(r->pool);
	if (r->cache)
		r->cache->backend->cache_close(r->cache);
	free(r->recorded);
	free(r->line);
	free(r->text);
}

static void report_figures(const struct replay* r, cJSON* out) {
	const struct sums* s = &r->sums;
	const double tokens = (double)s->tokens, rounds = (double)s->rounds;
	cJSON_AddStringToObject(out, "costs", r->cost_text);
	cJSON_AddNumberToObject(out, "instances", r->instances);
	cJSON_AddNumberToObject(out, "left_out", r->left_out);
	cJSON_AddNumberToObject(out, "tokens", tokens);
	cJSON_AddNumberToObject(out, "tokens_per_pass", quotient(tokens, rounds));
	cJSON_AddNumberToObject(out, "rows_per_pass", quotient((double)s->rows, rounds));
	cJSON_AddNumberToObject(out, "draft_passes_per_pass", quotient((double)s->draft_passes, rounds));
	cJSON_AddNumberToObject(out, "speedup", quotient(tokens, s->cost));
	cJSON* sources = cJSON_AddObjectToObject(out, "sources");
	for (int i = 0; i < DRAFTER_COUNT; i++) {
		cJSON* source = cJSON_AddObjectToObject(sources, drafter_name[i]);
		cJSON_AddNumberToObject(source, "rows", (double)s->of[i].rows);
		cJSON_AddNumberToObject(source, "accepted", (double)s->of[i].accepted);
		cJSON_AddNumberToObject(source, "predicted_over_realized",
		                        quotient(s->of[i].expected, (double)s->of[i].accepted));
	}
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool replay_answers(struct replay* r, struct error* error) {
	FILE* file = strcmp(r->input, "-") == 0 ? stdin : fopen(r->input, "rb");
	if (!file)
		return error_set(error, "%s: %s", r->input, strerror(errno));
	if (r->answer_path)
		r->answers = fopen(r->answer_path, "rb");
	const bool good =
	    (!r->answer_path || r->answers || error_set(error, "%s: %s", r->answer_path, strerror(errno))) &&
	    (!r->mask_path || mask_of_file(r->mask_path, NULL, r->part.bench.model, false, &r->skip, error)) &&
	    open_drafters(r, error) && replay_stream(r, file, error);
	if (r->answers)
		fclose(r->answers);
	if (file != stdin)
		fclose(file);
	return good;
}

static bool measure_replay(struct bench_part* part, cJSON* out, struct error* error) {
	struct replay* r = (struct replay*)part;
	r->context = bench_context(&part->bench);
	const bool good = replay_answers(r, error);
	if (good)
		report_figures(r, out);
	close_drafters(r);
	return good;
}

static int check_replay_options(struct bench_part* part) {
	struct replay* r = (struct replay*)part;
	struct error error = {{0}};
	if (!drafter_parse(r->drafter_text, &r->which, &error) ||
	    !read_cost_table(r->cost_text, &r->costs, &error))
		return complain(STATUS_USAGE, "%s", error.message);
	if (r->answer_path && r->which & 1u << SOURCE_mask)
		return complain(STATUS_USAGE, "bench replay: --answers does not run the model, so mask cannot draft: "
		                              "leave it out of --drafters");
	return OPTIONS_GO_ON;
}

int bench_replay_main(int argc, char** argv) {
	struct replay r = {.part = {.prepare = check_replay_options, .measure = measure_replay},
	                   .input = "-",
	                   .cost_text = "slope=0.05,c=0.55",
	                   .drafter_text = "prediction,retrieval,recycle",
	                   .pool_tokens = 1 << 16,
	                   .most_instances = INT32_MAX};
	const struct command_option option[] = {
	    BENCH_OPTIONS(r.part),
	    TEXT("input", 'i', "FILE", "prompts, as `swiftlet stream` takes them (standard input)", &r.input),
	    TEXT("costs", 0, "LIST|FILE",
	         "costs: slope=S or v2=V,v4=V…, and c=C; or a file that "
	         "bench decode --rows --json wrote (slope=0.05,c=0.55)",
	         &r.cost_text),
	    TEXT("drafters", 0, "LIST", "the drafters to use (prediction,retrieval,recycle)", &r.drafter_text),
	    COUNT("instances", 'n', "N", "stop after N prompts (all)", &r.most_instances, 1, INT32_MAX),
	    MORE_OPTIONS,
	    TEXT("answers", 0, "FILE",
	         "answers to the same prompts, as `stream --method vanilla -o` writes them; the model is then "
	         "not run, so mask cannot draft and recycle learns nothing",
	         &r.answer_path),
	    TEXT("mask", 0, "FILE", "the mask file whose layers `mask` skips (none)", &r.mask_path),
	    COUNT("pool", 0, "N", "how many tokens of earlier texts are kept", &r.pool_tokens, 0, 1 << 24),
	};
	struct command_line line = {
	    .name = "bench replay",
	    .usage = "MODEL [-i FILE] [--costs LIST] [options]",
	    .about =
	        "Decodes a stream of prompts, greedy, and counts what drafting would bring if a pass of n rows\n"
	        "cost v(n) plain steps and a draft pass c: tokens and rows a pass, the speed-up, and by drafter\n"
	        "the tokens that were expected and those that came. Nothing is timed.",
	    .examples = "  swiftlet bench replay -i prompts.jsonl --costs slope=0.05\n"
	                "  swiftlet bench replay -i prompts.jsonl --costs v2=1.15,v4=1.5,v8=2.5,v16=5.2",
	    OPTIONS(option),
	};
	return bench_part_main(&r.part, &line, argc, argv);
}
