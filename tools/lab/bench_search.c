/* `swiftlet bench search`: what searching for levels brings on a real model, and what the Gaussian process
 * brings to it.
 *
 * The model answers prompts; every other answer is searched on, the rest judge. For each share of the layers'
 * draft weights that a draft step reads, the search (optimizer/search.h) shares it out among maps and
 * blocks: from its start, by random proposals alone, by the process's alone, and by both in turns. Proposals
 * are scored on some windows, others after every twelve, as serving gives them. The judge is one-step
 * alpha, and how much more it is than the start's on the same rows, with the standard error of that.
 *
 * Nothing is simulated: a score is teacher-forced over the answers, a window of WINDOW rows a pass, each row
 * with the full model's keys and values of all tokens before it, as the optimizer scores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer/level_point.h"
#include "optimizer/search.h"
#include "tools/lab/bench.h"
#include "tools/lab/state_texts.h"
#include "tools/program/interrupt.h"

enum { WINDOW = 32, MOST_WINDOWS = 256, CHECKPOINTS = 3, MOST_SHARES = 8, ON_A_WINDOW = 12 };
enum { LEARN, JUDGE };

struct search_window {
	int text, base, size; /* predicts id[base + 1 … base + size] from `base` committed tokens */
};

struct half {
	struct prompt_list prompts;
	struct state_text* text;                   /* (prompts.n) with their caches */
	struct search_window window[MOST_WINDOWS]; /* round and round over the texts */
	int windows;
};

struct proposer {
	const char* name;
	int bayes_interval; /* every N-th proposal is the process's; 0: none */
};

static const struct proposer proposers[] = {{"random", 0}, {"process", 1}, {"both", 2}};
enum { PROPOSERS = sizeof proposers / sizeof *proposers };
static const int checkpoint[CHECKPOINTS] = {10, 25, 100};

/* Sums over rows, and which rows of a half were right. */
struct window_score {
	int rows, matches;
	double log_probability;               /* log-probability of the target's token, at least .03 */
	uint8_t right[MOST_WINDOWS * WINDOW]; /* (rows) */
};

struct searching {
	struct bench_part part;
	const char *input, *list, *only; /* shares read, in per cent; proposers whose names begin with this */
	double share[MOST_SHARES];
	int shares;
	int most, tokens, windows;
	int blocks;
	struct half half[2];
	struct mask quantized; /* the sub-layers that have draft weights, and whether the head has them */
	bool head;
	struct level_model model;
	struct window_score start, now; /* the judges' rows for the start and for the present mask */
	cJSON* rows;
};

/* ---- answers and what is cut from them ------------------------------------------------------ */

/* The k-th window of every text, then the next one's, so that the first scores come from many texts. */
static void cut_windows(struct half* half) {
	bool more = true;
	for (int at = 0; more; at += WINDOW) {
		more = false;
		for (int i = 0; i < half->prompts.n; i++) {
			const struct state_text* t = &half->text[i];
			const int base = t->n_prompt - 1 + at, left = t->n - 1 - base;
			if (left < WINDOW / 8 || half->windows == MOST_WINDOWS)
				continue;
			half->window[half->windows++] = (struct search_window){i, base, least(left, WINDOW)};
			more = true;
		}
	}
}

/* The answers of a half, and their filled caches. */
static bool answer_prompts(struct searching* s, int which, struct error* error) {
	const struct runtime* const bench = &s->part.bench;
	struct half* h = &s->half[which];
	h->text = calloc((size_t)h->prompts.n, sizeof *h->text);
	if (!h->text)
		return error_set(error, "out of memory for texts");
	if (!state_texts_answer(bench, h->prompts.prompt, h->prompts.n, h->text, error))
		return false;
	for (int i = 0; i < h->prompts.n; i++) {
		progress_show((double)i / h->prompts.n, "caches");
		if (!state_text_fill(bench, &h->text[i], error))
			return false;
	}
	cut_windows(h);
	return h->windows > 0 || error_set(error, "the answers are too short to score masks on");
}

/* Every other prompt to search on. False with the error set; close in any case. */
static bool open_texts(struct searching* s, struct error* error) {
	const struct runtime* const bench = &s->part.bench;
	struct prompt_list* const all = &s->half[JUDGE].prompts;
	return bench_prompts(bench, all, s->input, s->tokens, error) &&
	       prompts_split(all, &s->half[LEARN].prompts, error) && answer_prompts(s, LEARN, error) &&
	       answer_prompts(s, JUDGE, error);
}

static void close_texts(struct searching* s) {
	for (struct half* h = s->half; h < s->half + 2; h++) {
		state_texts_free(h->text, h->prompts.n);
		prompt_list_free(&h->prompts);
	}
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Each row is a segment of its own, which attends to the tokens before it. */
static bool score_window(const struct searching* s, const struct half* half, const struct mask* mask,
                         const struct search_window* w, struct window_score* score, struct error* error) {
	struct backend* const backend = s->part.bench.engine->backend;
	const struct state_text* t = &half->text[w->text];
	struct segment segment[WINDOW];
	struct result out[WINDOW];
	int32_t parent[WINDOW];
	uint8_t want[WINDOW];
	for (int i = 0; i < w->size; i++) {
		segment[i] = (struct segment){.cache = t->cache, .base = w->base + i, .n = 1};
		parent[i] = -1;
		want[i] = WANT_TOKEN | WANT_TOP;
		out[i].top = MAX_TOP;
	}
	struct pass pass = pass_over(segment, t->id + w->base, parent, 2 * s->blocks, want, out);
	pass.n = pass.n_segments = w->size;
	pass.skip = mask;
	pass.quantized = &s->quantized;
	pass.quantized_head = s->head;
	pass.levels = &mask->levels;
	pass.head = true;
	if (!backend->run(backend, &pass, error))
		return false;
	backend->discard(t->cache);
	for (int i = 0; i < w->size; i++) {
		const int32_t truth = t->id[w->base + i + 1];
		score->right[score->rows + i] = out[i].token == truth;
		score->matches += out[i].token == truth;
		score->log_probability += search_log_probability(result_probability(&out[i], truth));
	}
	score->rows += w->size;
	return true;
}

/* The mask's score on windows [first, first + n) of a half. */
static bool score_windows(const struct searching* s, int which, const struct mask* mask, int first, int n,
                          struct window_score* score, struct error* error) {
	const struct half* h = &s->half[which];
	score->rows = score->matches = 0;
	score->log_probability = 0;
	for (int i = first; i < first + n; i++)
		if (!score_window(s, h, mask, &h->window[i % h->windows], score, error))
			return false;
	return true;
}

/* ---- a row of the table --------------------------------------------------------------------- */

/* The share that a kind of map keeps, as text: one number if the thirds are equal. */
static void put_kept(char* text, size_t size, const struct levels* levels, int kind) {
	const int a = 100 - levels->left_out[0][kind], b = 100 - levels->left_out[1][kind],
	          c = 100 - levels->left_out[2][kind];
	if (a == b && b == c)
		snprintf(text, size, "%d", a);
	else
		snprintf(text, size, "%d %d %d", a, b, c);
}

/* The mean gain in right rows over the start's mask, and its standard error. */
static void compare_rows(const struct searching* s, double* gain, double* error) {
	const int n = s->now.rows;
	int sum = 0, square = 0;
	for (int i = 0; i < n; i++) {
		const int more = s->now.right[i] - s->start.right[i];
		sum += more;
		square += more * more;
	}
	*gain = (double)sum / n;
	*error = sqrt(((double)square / n - *gain * *gain) / n);
}

static bool report_mask(struct searching* s, const char* name, double share, int after,
                        const struct mask* mask, struct error* error) {
	static const char* const kind[COLUMN_KINDS] = {"attention", "output", "mlp", "down"};
	if (!score_windows(s, JUDGE, mask, 0, s->half[JUDGE].windows, &s->now, error))
		return false;
	if (after == 0)
		s->start = s->now;
	double gain, stray;
	compare_rows(s, &gain, &stray);
	cJSON* const row = bench_json_row(s->rows);
	cJSON_AddNumberToObject(row, "read", share);
	cJSON_AddStringToObject(row, "proposals", name);
	cJSON_AddNumberToObject(row, "evaluations", after);
	cJSON_AddNumberToObject(row, "reads", level_share(&s->model, mask, &mask->levels));
	cJSON_AddNumberToObject(row, "alpha", (double)s->now.matches / s->now.rows);
	cJSON_AddNumberToObject(row, "log_probability", s->now.log_probability / s->now.rows);
	cJSON_AddNumberToObject(row, "over_start", gain);
	cJSON_AddNumberToObject(row, "error", stray);
	for (int k = 0; k < COLUMN_KINDS; k++) {
		char text[32];
		put_kept(text, sizeof text, &mask->levels, k);
		cJSON_AddStringToObject(row, kind[k], text);
	}
	return true;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Half of the channels of attention and of gate and up, and a quarter of down's, scaled to the share that is
 * read. */
static struct mask start_mask(const struct searching* s, double share) {
	static const struct levels first = {{{50, 50, 50, 75}, {50, 50, 50, 75}, {50, 50, 50, 75}}};
	double x[LEVEL_DIMS];
	level_point(&s->model, &(struct mask){.word = {0}}, &first, x);
	x[LEVEL_READ] = level_read_coordinate(share);
	return level_mask(&s->model, x);
}

static struct search* open_search(const struct searching* s, const struct proposer* p,
                                  const struct mask* start, struct error* error) {
	struct search* search = search_open(&(struct search_options){.blocks = s->blocks,
	                                                             .bayes_interval = p->bayes_interval,
	                                                             .max_steps = 1000,
	                                                             .patience = 1000,
	                                                             .levels = true,
	                                                             .given_share = true,
	                                                             .start = start->levels,
	                                                             .seed = s->part.bench.options.sampling.seed},
	                                    error);
	if (!search)
		return NULL;
	struct search_costs costs = {.max_draft = 1}; /* at a given share no costs are compared */
	memcpy(costs.channel, s->model.bytes, sizeof costs.channel);
	search_set_costs(search, &costs);
	search_adopt(search, start);
	return search;
}

/* The next proposal, scored on the present windows. */
static bool evaluate_next(struct searching* s, struct search* search, int evaluation, struct error* error) {
	const struct half* const half = &s->half[LEARN];
	const int windows =
	    least(s->windows, half->windows); /* each once, so that its rows count as independent */
	const int turn = evaluation / ON_A_WINDOW, first = turn * windows % half->windows;
	struct proposal proposal;
	int rows = 0;
	for (int i = first; i < first + windows; i++)
		rows += half->window[i % half->windows].size;
	search_window(search, turn + 1, rows);
	if (!search_propose(search, &proposal))
		return error_set(error, "the search proposes nothing");
	if (!score_windows(s, LEARN, &proposal.mask, first, windows, &s->now, error))
		return false;
	proposal.log_probability = s->now.log_probability / s->now.rows;
	search_observe(search, &proposal, s->now.matches, s->now.rows);
	return true;
}

static bool run_search(struct searching* s, const struct proposer* p, double share, const struct mask* start,
                       struct error* error) {
	struct search* search = open_search(s, p, start, error);
	bool good = search != NULL;
	for (int done = 0, at = 0; good && !interrupted() && at < CHECKPOINTS && checkpoint[at] <= s->most;) {
		good = evaluate_next(s, search, done++, error);
		progress_show((double)done / s->most, "%s, %.0f %% read", p->name, 100 * share);
		if (good && done == checkpoint[at]) {
			const struct mask best = search_best(search, NULL);
			good = report_mask(s, p->name, share, checkpoint[at++], &best, error);
		}
	}
	search_close(search);
	return good;
}

static bool run_share(struct searching* s, double share, struct error* error) {
	const struct mask start = start_mask(s, share);
	if (!report_mask(s, "start", share, 0, &start, error))
		return false;
	for (int p = 0; p < PROPOSERS && !interrupted(); p++)
		if (!s->only || strncmp(proposers[p].name, s->only, strlen(s->only)) == 0)
			if (!run_search(s, &proposers[p], share, &start, error))
				return false;
	return true;
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool read_shares(struct searching* s, const char* text) {
	s->shares = bench_read_numbers(text, s->share, MOST_SHARES);
	bool good = s->shares > 0;
	for (int i = 0; i < s->shares; i++) {
		s->share[i] /= 100;
		good = good && s->share[i] >= LEVEL_LEAST && s->share[i] <= 1;
	}
	return good;
}

/* Has the measured weights made before the first token. */
static int check_search_options(struct bench_part* part) {
	struct searching* s = (struct searching*)part;
	part->bench.options.draft_weights.bits = 4;
	bool known = !s->only;
	for (int p = 0; s->only && p < PROPOSERS; p++)
		known = known || strncmp(proposers[p].name, s->only, strlen(s->only)) == 0;
	if (!known)
		return complain(STATUS_USAGE, "bench search: --only %s, expected random, process or both", s->only);
	return read_shares(s, s->list)
	           ? OPTIONS_GO_ON
	           : complain(STATUS_USAGE, "bench search: --reads %s, expected up to %d numbers from %g to 100",
	                      s->list, MOST_SHARES, 100 * LEVEL_LEAST);
}

static bool open_model(struct searching* s, struct error* error) {
	const struct runtime* const bench = &s->part.bench;
	const struct draft_weights* const weights = engine_draft_weights(bench->engine);
	if (!weights || !weights->format.columns)
		return error_set(error, "%s has no draft weights by input channel here", bench->model->name);
	s->quantized = draft_weights_sub_layers(weights, &(struct mask){.word = {0}}, &s->head);
	s->blocks = s->model.blocks = bench->model->weights.shape.n_blocks;
	cost_channels(&bench->engine->cost, s->model.bytes);
	return true;
}

static bool measure_search(struct bench_part* part, cJSON* out, struct error* error) {
	struct searching* s = (struct searching*)part;
	bool good = open_model(s, error) && open_texts(s, error);
	if (good) {
		cJSON_AddNumberToObject(out, "windows_searched_on", s->half[LEARN].windows);
		cJSON_AddNumberToObject(out, "windows_that_judge", s->half[JUDGE].windows);
		s->rows = cJSON_AddArrayToObject(out, "rows");
	}
	for (int i = 0; good && i < s->shares && !interrupted(); i++)
		good = run_share(s, s->share[i], error);
	close_texts(s);
	return good;
}

int bench_search_main(int argc, char** argv) {
	static struct searching s = {.part = {.prepare = check_search_options, .measure = measure_search},
	                             .list = "60,50,43,35,28",
	                             .most = 100,
	                             .tokens = 96,
	                             .windows = 4};
	const struct command_option option[] = {
	    BENCH_OPTIONS(s.part),
	    TEXT("input", 'i', "FILE",
	         "prompts, as `swiftlet stream` takes them; the search uses every second one, and the others "
	         "judge it",
	         &s.input),
	    TEXT("reads", 0, "LIST",
	         "how many per cent of the layers' draft weights a step reads (60,50,43,35,28)", &s.list),
	    COUNT("tokens", 'n', "N", "generate at most N tokens an answer", &s.tokens, 16, 1024),
	    COUNT("evaluations", 0, "N", "evaluations of a search, at most (100)", &s.most, 0, 100),
	    COUNT("windows", 0, "N", "score a proposal on this many windows of 32 rows", &s.windows, 1, 16),
	    TEXT("only", 0, "NAME", "where proposals come from: random, process or both", &s.only),
	};
	struct command_line line = {
	    .name = "bench search",
	    .usage = "MODEL [-i FILE] [--evaluations N] [options]",
	    .about = "Measures what searching for levels brings: the share of single draft steps that are right\n"
	             "(alpha), on answers that were not searched on, by the share of the draft weights that is\n"
	             "read; from the start, and after 10, 25 and 100 evaluations of random proposals, of a\n"
	             "Gaussian process's, and of both in turns.",
	    .examples = "  swiftlet bench search -m model.gguf -i tools/unseen.jsonl",
	    OPTIONS(option),
	};
	return bench_part_main(&s.part, &line, argc, argv);
}
