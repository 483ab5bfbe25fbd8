/* `swiftlet bench search`: which proposers find good masks on a real model, at what cost saved.
 *
 * The model answers prompts; every other answer is searched on, the rest judge. For each share of a plain
 * step's cost: the best span by exhaustive trial, greedy removal, and the search's own proposers, scored on
 * windows one after another as serving gives them. What is judged is one-step alpha.
 *
 * Nothing is simulated: a score is teacher-forced over the answers, a window of WINDOW rows a pass, each
 * row with the full model's keys and values of all tokens before it, as the optimizer scores. A mask's cost
 * is the share of a plain step's weight bytes that it saves. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer/spans.h"
#include "tools/lab/bench.h"
#include "tools/lab/state_texts.h"
#include "tools/program/interrupt.h"

enum { WINDOW = 32, MOST_WINDOWS = 1024, CHECKPOINTS = 5, MOST_COSTS = 8, NEVER = 1 << 30 };
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
	bool spans;
	int bayes_interval; /* 0: uniformly random only */
};

static const struct proposer proposers[] = {
    {"uniform", false, 0},
    {"influence, linear", false, NEVER},
    {"spans, removal", true, NEVER},
};
enum { PROPOSERS = sizeof proposers / sizeof *proposers };
static const int checkpoint[CHECKPOINTS] = {0, SEARCH_SPANS, 25, 100, 300};

struct searching {
	struct bench_part part;
	const char *input, *list, *only; /* shares of cost; proposers whose name begins so */
	double cost[MOST_COSTS];
	int costs;
	int most, tokens, windows;
	bool alone; /* without references */
	int blocks;
	struct half half[2];
	struct spans spans;           /* over the answers to search on */
	double attention, mlp, fixed; /* costs, in plain steps */
	cJSON* rows;
};

/* ---- answers and what is cut from them ------------------------------------------------------ */

/* The k-th window of every text, then the next one's: what comes first is of many texts. */
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

struct state_walk {
	struct searching* s;
	const struct state_text* text;
};

/* Influence of the answer's rows. */
static void take_states(void* user, int first, int n, float* const* state) {
	const struct state_walk* w = user;
	const int dim = w->s->part.bench.model->weights.shape.dim;
	const int skip = w->text->n_prompt > first ? w->text->n_prompt - first : 0;
	float* point[2 * MAX_BLOCKS + 1] = {NULL};
	if (skip >= n)
		return;
	for (int i = 0; i < 2 * w->s->blocks; i++)
		point[i + 1] = state[i] + (size_t)skip * (size_t)dim;
	spans_add(&w->s->spans, point, n - skip, dim);
}

/* The answers of a half, their caches, filled, and what the states of those to search on tell. */
static bool answer_prompts(struct searching* s, int which, struct error* error) {
	const struct runtime* const bench = &s->part.bench;
	struct half* h = &s->half[which];
	struct state_points points = {.n = 0};
	for (int l = 1; l <= 2 * s->blocks; l++)
		points.at[points.n++] = l;
	h->text = calloc((size_t)h->prompts.n, sizeof *h->text);
	if (!h->text)
		return error_set(error, "out of memory for texts");
	if (!state_texts_answer(bench, h->prompts.prompt, h->prompts.n, h->text, error))
		return false;
	for (int i = 0; i < h->prompts.n; i++) {
		struct state_walk w = {s, &h->text[i]};
		bench_progress((double)i / h->prompts.n, "states");
		if (!(which == LEARN ? state_text_walk(bench, &h->text[i], &points, take_states, &w, error)
		                     : state_text_fill(bench, &h->text[i], error)))
			return false;
	}
	cut_windows(h);
	return h->windows > 0 || error_set(error, "the answers are too short to score masks on");
}

/* Every other prompt to search on. False with the error set; close in any case. */
static bool open_texts(struct searching* s, struct error* error) {
	const struct runtime* const bench = &s->part.bench;
	struct prompt_list* const all = &s->half[JUDGE].prompts;
	const struct cost_model bytes = cost_by_bytes(&bench->engine->cost);
	cost_sub_layers(&bytes, false, NULL, &s->attention, &s->mlp, &s->fixed);
	s->blocks = bench->model->weights.shape.n_blocks;
	return bench_prompts(bench, all, s->input, s->tokens, error) &&
	       prompts_split(all, &s->half[LEARN].prompts, error) &&
	       (spans_open(&s->spans, s->blocks) || error_set(error, "out of memory for influence")) &&
	       answer_prompts(s, LEARN, error) && answer_prompts(s, JUDGE, error);
}

static void close_texts(struct searching* s) {
	for (struct half* h = s->half; h < s->half + 2; h++) {
		if (h->text)
			state_texts_free(h->text, h->prompts.n);
		free(h->text);
		prompt_list_free(&h->prompts);
	}
	spans_close(&s->spans);
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Sums over rows. */
struct window_score {
	int rows, matches;
	double log_probability; /* the draft's of the target's token; 0.03 at least in the log */
};

/* Each row a segment of its own, that sees the tokens before it. */
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
	pass.head = true;
	if (!backend->run(backend, &pass, error))
		return false;
	backend->discard(t->cache);
	for (int i = 0; i < w->size; i++) {
		const int32_t truth = t->id[w->base + i + 1];
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
	*score = (struct window_score){0};
	for (int i = first; i < first + n; i++)
		if (!score_window(s, h, mask, &h->window[i % h->windows], score, error))
			return false;
	return true;
}

/* Share of a plain step that a mask saves. */
static double saved_by(const struct searching* s, const struct mask* mask) {
	double saved = 0;
	for (int l = 0; l < 2 * s->blocks; l++)
		saved += mask_has(mask, l) ? l & 1 ? s->mlp : s->attention : 0;
	return saved;
}

/* ---- a row of the table --------------------------------------------------------------------- */

/* With one-step alpha: the share of an answer's tokens that a single draft step finds after the full model's
 * keys and values of all tokens before. */
static bool show_progress(const struct searching* s, const char* name, double cost, int after,
                          const struct mask* mask, struct error* error) {
	struct window_score score;
	if (!score_windows(s, JUDGE, mask, 0, s->half[JUDGE].windows, &score, error))
		return false;
	char text[8 * MAX_BLOCKS * 2];
	size_t n = 0;
	for (int i = 0; i < 2 * s->blocks; i++)
		if (mask_has(mask, i))
			n +=
			    (size_t)snprintf(text + n, sizeof text - n, "%s%c%d", n ? " " : "", i & 1 ? 'm' : 'a', i / 2);
	cJSON* row = bench_json_row(s->rows);
	cJSON_AddNumberToObject(row, "cost", cost);
	cJSON_AddStringToObject(row, "proposer", name);
	cJSON_AddNumberToObject(row, "proposals", after);
	cJSON_AddNumberToObject(row, "saved", saved_by(s, mask));
	cJSON_AddNumberToObject(row, "alpha", (double)score.matches / score.rows);
	cJSON_AddStringToObject(row, "left_out", n > 0 ? text : "");
	return true;
}

/* ---- what a mask could be ------------------------------------------------------------------- */

/* Mean log-probability on the windows to search on. */
static bool quality(const struct searching* s, const struct mask* mask, double* mean, struct error* error) {
	struct window_score score;
	if (!score_windows(s, LEARN, mask, 0, s->half[LEARN].windows, &score, error))
		return false;
	*mean = score.log_probability / score.rows;
	return true;
}

/* Of prefixes of blocks, each as long as the cost wants. */
static bool best_span(const struct searching* s, double cost, struct mask* best, struct error* error) {
	double most = -INFINITY, mean;
	const int end = 2 * s->blocks - 2;
	for (int first = 2; first < end; first += 2) {
		struct mask mask = {.word = {0}};
		for (int i = first; i < end && saved_by(s, &mask) < cost - 1e-9; i++)
			mask_set(&mask, i, true);
		if (saved_by(s, &mask) < cost - 1e-9)
			break;
		bench_progress((double)first / end, "spans");
		if (!quality(s, &mask, &mean, error))
			return false;
		if (mean > most) {
			most = mean;
			*best = mask;
		}
	}
	return true;
}

/* The sub-layer of least loss for what it saves goes, again and again. A loss seldom falls as more is gone,
 * so that only those are tried again whose last one was less than the best of now. */
static bool remove_next(const struct searching* s, struct mask* mask, double* now, double* loss,
                        struct error* error) {
	bool fresh[2 * MAX_BLOCKS] = {false};
	for (;;) {
		int best = -1;
		for (int i = 2; i < 2 * s->blocks - 2; i++)
			if (!mask_has(mask, i) && (best < 0 || loss[i] < loss[best]))
				best = i;
		const double saves = best & 1 ? s->mlp : s->attention;
		if (fresh[best]) {
			mask_set(mask, best, true);
			*now -= loss[best] * saves;
			return true;
		}
		struct mask without = *mask;
		double mean;
		mask_set(&without, best, true);
		if (!quality(s, &without, &mean, error))
			return false;
		loss[best] = (*now - mean) / saves;
		fresh[best] = true;
	}
}

static bool references(const struct searching* s, struct error* error) {
	struct mask mask = {.word = {0}}, span;
	double loss[2 * MAX_BLOCKS], now;
	for (int c = 0; c < s->costs; c++)
		if (!best_span(s, s->cost[c], &span, error) ||
		    !show_progress(s, "best span", s->cost[c], 0, &span, error))
			return false;
	for (int i = 0; i < 2 * s->blocks; i++)
		loss[i] = -INFINITY;
	if (!quality(s, &mask, &now, error))
		return false;
	for (int c = 0; c < s->costs; c++) {
		while (saved_by(s, &mask) < s->cost[c] - 1e-9) {
			bench_progress(saved_by(s, &mask) / s->cost[s->costs - 1], "greedy removal");
			if (!remove_next(s, &mask, &now, loss, error))
				return false;
		}
		if (!show_progress(s, "greedy removal", s->cost[c], 0, &mask, error))
			return false;
	}
	return true;
}

/* ---- the search ----------------------------------------------------------------------------- */

static struct search* open_search(const struct searching* s, const struct proposer* p, double cost,
                                  struct error* error) {
	const struct search_options options = {.blocks = s->blocks,
	                                       .skip_ratio = 0.45,
	                                       .skip_cost = cost,
	                                       .bayes_interval = p->bayes_interval,
	                                       .max_steps = 1000,
	                                       .patience = 1000,
	                                       .max_matchness = 1,
	                                       .confirm = 1,
	                                       .kappa = 2.5,
	                                       .seed = 1};
	struct search_costs costs = {
	    .attention = s->attention, .mlp = s->mlp, .fixed = s->fixed, .max_draft = 25};
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = 1 + 0.1 * (n - 1);
	struct search* search = search_open(&options, error);
	if (!search)
		return NULL;
	search_set_costs(search, &costs);
	double influence[2 * MAX_BLOCKS] = {0};
	for (int i = 1; i < 2 * s->blocks; i++)
		influence[i] = spans_influence(&s->spans, i, i + 1);
	if (p->spans)
		search_set_spans(search, &s->spans);
	else if (p->bayes_interval > 0)
		search_set_influence(search, influence, s->spans.rows);
	return search;
}

static bool run_search(const struct searching* s, const struct proposer* p, double cost,
                       struct error* error) {
	struct search* search = open_search(s, p, cost, error);
	const struct half* half = &s->half[LEARN];
	bool good = search != NULL;
	for (int scored = 0, at = 0; good && !interrupted() && at < CHECKPOINTS && checkpoint[at] <= s->most;
	     scored++) {
		if (checkpoint[at] == scored) {
			const struct mask best = search_best(search, NULL);
			good = show_progress(s, p->name, cost, checkpoint[at++], &best, error);
		}
		struct proposal proposal;
		struct window_score score = {0};
		const int w = scored / SEARCH_SPANS * s->windows % half->windows;
		int rows = 0;
		for (int i = w; i < w + s->windows; i++)
			rows += half->window[i % half->windows].size;
		search_window(search, scored / SEARCH_SPANS + 1, rows);
		bench_progress((double)scored / s->most, "%s", p->name);
		good = good && search_propose(search, &proposal) &&
		       score_windows(s, LEARN, &proposal.mask, w, s->windows, &score, error);
		proposal.log_probability = score.log_probability / score.rows;
		if (good)
			search_observe(search, &proposal, score.matches, score.rows);
	}
	search_close(search);
	return good;
}

static bool run_all(const struct searching* s, struct error* error) {
	if (!s->alone && !references(s, error))
		return false;
	for (int c = 0; c < s->costs; c++)
		for (int p = 0; p < PROPOSERS && !interrupted(); p++)
			if (!s->only || strncmp(proposers[p].name, s->only, strlen(s->only)) == 0)
				if (!run_search(s, &proposers[p], s->cost[c], error))
					return false;
	return true;
}

/* ---- the command ---------------------------------------------------------------------------- */

static bool read_costs(struct searching* s, const char* text) {
	for (s->costs = 0; s->costs < MOST_COSTS; text++) {
		char* end;
		s->cost[s->costs] = strtod(text, &end) / 100;
		if (end == text || !(s->cost[s->costs] > 0 && s->cost[s->costs] < 1))
			return false;
		s->costs++;
		text = end;
		if (*text == 0)
			return true;
		if (*text != ',')
			return false;
	}
	return false;
}

static int check_search_options(struct bench_part* part) {
	struct searching* s = (struct searching*)part;
	return read_costs(s, s->list)
	           ? OPTIONS_GO_ON
	           : complain(STATUS_USAGE,
	                      "bench search: --costs %s, expected up to %d numbers over 0 and under 100", s->list,
	                      MOST_COSTS);
}

static bool measure_search(struct bench_part* part, cJSON* out, struct error* error) {
	struct searching* s = (struct searching*)part;
	bool good = open_texts(s, error);
	if (good) {
		bench_json_number(out, "attention", s->attention);
		bench_json_number(out, "mlp", s->mlp);
		bench_json_number(out, "rest", s->fixed);
		bench_json_number(out, "windows_searched_on", s->half[LEARN].windows);
		bench_json_number(out, "windows_that_judge", s->half[JUDGE].windows);
		s->rows = cJSON_AddArrayToObject(out, "rows");
		good = run_all(s, error);
	}
	close_texts(s);
	return good;
}

int bench_search_main(int argc, char** argv) {
	struct searching s = {.part = {.prepare = check_search_options, .measure = measure_search},
	                      .list = "10,20,30,40,50",
	                      .most = 300,
	                      .tokens = 160,
	                      .windows = 8};
	const struct command_option option[] = {
	    BENCH_OPTIONS(s.part),
	    TEXT("input", 'i', "FILE", "prompts, as `swiftlet stream` takes them: every other one judges",
	         &s.input),
	    TEXT("costs", 0, "LIST", "percent of a plain step's cost to save (10,20,30,40,50)", &s.list),
	    COUNT("tokens", 'n', "N", "tokens of an answer at most (160)", &s.tokens, 16, 4096),
	    COUNT("proposals", 0, "N", "the most that a search makes (300)", &s.most, 0, 300),
	    COUNT("windows", 0, "N", "windows of 32 rows that a proposal is scored on (8)", &s.windows, 1, 64),
	    TEXT("only", 0, "NAME", "proposers whose name begins so", &s.only),
	    FLAG("no-references", "without the best span and greedy removal", &s.alone),
	};
	struct command_line line = {
	    .name = "bench search",
	    .usage = "MODEL [-i FILE] [--costs LIST] [--proposals N] [--json] [options]",
	    .about =
	        "Measures how good the masks are that the search finds: the share of single draft steps that "
	        "are\n"
	        "right (alpha), on answers that were not searched on, by the share of a step's cost that the\n"
	        "mask saves; beside the best span of layers and greedy removal on all answers.",
	    .examples = "  swiftlet bench search -m model.gguf -i tools/chat.jsonl",
	    OPTIONS(option),
	};
	return bench_part_main(&s.part, &line, argc, argv);
}
