/* `swiftlet bench search`: which proposers find good masks on a real model, at what cost saved.
 *
 * The model answers prompts; every other answer is searched on, the rest judge. For each share of a plain
 * step's cost: the best span by exhaustive trial, greedy removal, and the search's own proposers, scored on
 * windows one after another as serving gives them. What is judged is one-step alpha.
 *
 * Nothing is simulated: a score is teacher-forced over the answers, a window of LAB_WINDOW rows a pass, each
 * row with the full model's keys and values of all tokens before it, as the optimizer scores. A mask's price
 * is the share of a plain step's weight bytes that it saves. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer/spans.h"
#include "tools/lab/bench.h"
#include "tools/lab/state_texts.h"
#include "tools/program/interrupt.h"

enum { LAB_WINDOW = 32, LAB_LEARN = 0, LAB_JUDGE = 1, LAB_MOST_WINDOWS = 1024 };

struct lab_window {
	int text, base, size; /* predicts id[base + 1 … base + size] from `base` committed tokens */
};

struct lab_half {
	struct state_text* text; /* (n) with their caches */
	int n;
	struct lab_window window[LAB_MOST_WINDOWS]; /* round and round over the texts */
	int windows;
};

struct lab {
	struct text_maker maker;
	struct backend* backend;
	int blocks;
	struct lab_half half[2];
	struct spans spans;           /* over the answers to search on */
	double attention, mlp, fixed; /* prices, in plain steps */
	struct result out[LAB_WINDOW];
};

/* Sums over rows. */
struct lab_score {
	int rows, matches;
	double log_probability; /* the draft's of the target's token; 0.03 at least in the log */
};

/* ---- answers and what is cut from them ------------------------------------------------------ */

/* The k-th window of every text, then the next one's: what comes first is of many texts. */
static void cut(struct lab_half* half) {
	bool more = true;
	for (int at = 0; more; at += LAB_WINDOW) {
		more = false;
		for (int i = 0; i < half->n; i++) {
			const struct state_text* t = &half->text[i];
			const int base = t->n_prompt - 1 + at, left = t->n - 1 - base;
			if (left < LAB_WINDOW / 8 || half->windows == LAB_MOST_WINDOWS)
				continue;
			half->window[half->windows++] =
			    (struct lab_window){i, base, left < LAB_WINDOW ? left : LAB_WINDOW};
			more = true;
		}
	}
}

struct walk {
	struct lab* lab;
	struct lab_half* half;
	int text;
};

/* Influence of the answer's rows. */
static void take_states(void* user, int first, int n, float* const* state) {
	struct walk* w = user;
	struct lab* lab = w->lab;
	const struct state_text* t = &w->half->text[w->text];
	const size_t dim = (size_t)lab->backend->weights->shape.dim;
	const int skip = t->n_prompt > first ? t->n_prompt - first : 0;
	float* point[2 * MAX_BLOCKS + 1] = {NULL};
	if (skip >= n || w->half != &lab->half[LAB_LEARN])
		return;
	for (int i = 0; i < 2 * lab->blocks; i++)
		point[i + 1] = state[i] + (size_t)skip * dim;
	spans_add(&lab->spans, point, n - skip, (int)dim);
}

/* The caches of a half, filled, and what its answers' states tell. */
static bool walk(struct lab* lab, int half, struct error* error) {
	struct state_points points = {.n = 0};
	struct lab_half* h = &lab->half[half];
	for (int s = 1; s <= 2 * lab->blocks; s++)
		if (half == LAB_LEARN || s == 2 * lab->blocks)
			points.at[points.n++] = s;
	for (int i = 0; i < h->n; i++) {
		struct walk w = {lab, h, i};
		bench_progress((double)i / h->n, "states");
		if (!state_text_walk(&lab->maker, &h->text[i], true, &points, take_states, &w, error))
			return false;
	}
	cut(h);
	return h->windows > 0 || error_set(error, "the answers are too short to score masks on");
}

static bool answer(struct lab* lab, const struct prompt* prompt, int n, struct error* error) {
	struct prompt* split = calloc((size_t)n, sizeof *split);
	int most[2] = {0, 0};
	if (!split)
		return error_set(error, "out of memory for prompts");
	bool good = true;
	for (int half = 0; half < 2 && good; half++) {
		struct lab_half* h = &lab->half[half];
		for (int i = half; i < n; i += 2)
			split[most[half]++] = prompt[i];
		h->text = calloc((size_t)n, sizeof *h->text);
		h->n = most[half];
		good = (h->text != NULL || error_set(error, "out of memory for texts")) &&
		       state_texts_answer(&lab->maker, split, h->n, h->text, error);
	}
	free(split);
	return good;
}

/* prompt: every other one to search on. False with the error set; close in any case. */
static bool lab_open(struct lab* lab, const struct runtime* bench, const struct swiftlet_options* options,
                     const struct prompt* prompt, int n, struct error* error) {
	struct backend* backend = bench->engine->backend;
	*lab = (struct lab){.maker = {bench->engine, options_context(options, bench->model)},
	                    .backend = backend,
	                    .blocks = backend->weights->shape.n_blocks};
	const struct cost_model bytes = cost_by_bytes(&bench->engine->cost);
	cost_sub_layers(&bytes, false, &lab->attention, &lab->mlp, &lab->fixed);
	if (n < 2)
		return error_set(error, "fewer than two prompts");
	return (spans_open(&lab->spans, lab->blocks) || error_set(error, "out of memory for influence")) &&
	       answer(lab, prompt, n, error) && walk(lab, LAB_LEARN, error) && walk(lab, LAB_JUDGE, error);
}

static void lab_close(struct lab* lab) {
	for (int half = 0; half < 2; half++) {
		if (lab->half[half].text)
			state_texts_free(lab->half[half].text, lab->half[half].n);
		free(lab->half[half].text);
	}
	spans_close(&lab->spans);
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Each row a segment of its own, that sees the tokens before it. */
static bool score_window(struct lab* lab, struct lab_half* half, const struct mask* mask,
                         const struct lab_window* w, struct lab_score* score, struct error* error) {
	const struct state_text* t = &half->text[w->text];
	struct segment segment[LAB_WINDOW];
	int32_t parent[LAB_WINDOW];
	uint8_t want[LAB_WINDOW];
	for (int i = 0; i < w->size; i++) {
		segment[i] = (struct segment){.cache = t->cache, .base = w->base + i, .n = 1};
		parent[i] = -1;
		want[i] = WANT_TOKEN | WANT_TOP;
		lab->out[i].top = MAX_TOP;
	}
	struct pass pass = pass_over(segment, t->id + w->base, parent, 2 * lab->blocks, want, lab->out);
	pass.n = pass.n_segments = w->size;
	pass.skip = mask;
	pass.head = true;
	if (!lab->backend->run(lab->backend, &pass, error))
		return false;
	lab->backend->discard(t->cache);
	for (int i = 0; i < w->size; i++) {
		const int32_t truth = t->id[w->base + i + 1];
		const double p = result_probability(&lab->out[i], truth);
		score->matches += lab->out[i].token == truth;
		score->log_probability += search_log_probability(p);
	}
	score->rows += w->size;
	return true;
}

/* Adds the mask's score on windows [first, first + n) of a half. */
static bool lab_score(struct lab* lab, int half, const struct mask* mask, int first, int n,
                      struct lab_score* score, struct error* error) {
	struct lab_half* h = &lab->half[half];
	for (int i = first; i < first + n; i++)
		if (!score_window(lab, h, mask, &h->window[i % h->windows], score, error))
			return false;
	return true;
}

/* One-step alpha: the share of an answer's tokens that a single draft step finds after the full model's keys
 * and values of all tokens before; negative with the error set. */
static double lab_alpha(struct lab* lab, int half, const struct mask* mask, struct error* error) {
	struct lab_score score = {0};
	if (!lab_score(lab, half, mask, 0, lab->half[half].windows, &score, error))
		return -1;
	return (double)score.matches / score.rows;
}

/* Share of a plain step that a mask saves. */
static double lab_saved(const struct lab* lab, const struct mask* mask) {
	double saved = 0;
	for (int s = 0; s < 2 * lab->blocks; s++)
		saved += mask_has(mask, s) ? s & 1 ? lab->mlp : lab->attention : 0;
	return saved;
}

/* ---- what is compared ----------------------------------------------------------------------- */

enum { CHECKPOINTS = 5, MOST_COSTS = 8, NEVER = 1 << 30 };

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
	struct lab lab;
	const char *input, *list, *only; /* shares of cost; proposers whose name begins so */
	double cost[MOST_COSTS];
	int costs;
	int most, tokens, windows;
	bool alone; /* without references */
	cJSON* rows;
};

/* ---- a row of the table --------------------------------------------------------------------- */

static bool show(struct searching* s, const char* name, double cost, int after, const struct mask* mask,
                 struct error* error) {
	const double alpha = lab_alpha(&s->lab, LAB_JUDGE, mask, error);
	if (alpha < 0)
		return false;
	char text[8 * MAX_BLOCKS * 2];
	size_t n = 0;
	for (int i = 0; i < 2 * s->lab.blocks; i++)
		if (mask_has(mask, i))
			n +=
			    (size_t)snprintf(text + n, sizeof text - n, "%s%c%d", n ? " " : "", i & 1 ? 'm' : 'a', i / 2);
	cJSON* row = bench_json_row(s->rows);
	cJSON_AddNumberToObject(row, "cost", cost);
	cJSON_AddStringToObject(row, "proposer", name);
	cJSON_AddNumberToObject(row, "proposals", after);
	cJSON_AddNumberToObject(row, "saved", lab_saved(&s->lab, mask));
	cJSON_AddNumberToObject(row, "alpha", alpha);
	cJSON_AddStringToObject(row, "left_out", n > 0 ? text : "");
	return true;
}

/* ---- what a mask could be ------------------------------------------------------------------- */

/* Mean log-probability on the windows to search on. */
static bool quality(struct searching* s, const struct mask* mask, double* mean, struct error* error) {
	struct lab_score score = {0};
	const int windows = s->lab.half[LAB_LEARN].windows;
	if (!lab_score(&s->lab, LAB_LEARN, mask, 0, windows, &score, error))
		return false;
	*mean = score.log_probability / score.rows;
	return true;
}

/* Of whole blocks' beginnings, each as long as the cost wants. */
static bool best_span(struct searching* s, double cost, struct mask* best, struct error* error) {
	double most = -INFINITY, mean;
	const int end = 2 * s->lab.blocks - 2;
	for (int first = 2; first < end; first += 2) {
		struct mask mask = {.word = {0}};
		for (int i = first; i < end && lab_saved(&s->lab, &mask) < cost - 1e-9; i++)
			mask_set(&mask, i, true);
		if (lab_saved(&s->lab, &mask) < cost - 1e-9)
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
static bool remove_next(struct searching* s, struct mask* mask, double* now, double* loss,
                        struct error* error) {
	bool fresh[2 * MAX_BLOCKS] = {false};
	for (;;) {
		int best = -1;
		for (int i = 2; i < 2 * s->lab.blocks - 2; i++)
			if (!mask_has(mask, i) && (best < 0 || loss[i] < loss[best]))
				best = i;
		const double saves = best & 1 ? s->lab.mlp : s->lab.attention;
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

static bool references(struct searching* s, struct error* error) {
	struct mask mask = {.word = {0}}, span;
	double loss[2 * MAX_BLOCKS], now;
	for (int c = 0; c < s->costs; c++)
		if (!best_span(s, s->cost[c], &span, error) || !show(s, "best span", s->cost[c], 0, &span, error))
			return false;
	for (int i = 0; i < 2 * s->lab.blocks; i++)
		loss[i] = -INFINITY;
	if (!quality(s, &mask, &now, error))
		return false;
	for (int c = 0; c < s->costs; c++) {
		while (lab_saved(&s->lab, &mask) < s->cost[c] - 1e-9) {
			bench_progress(lab_saved(&s->lab, &mask) / s->cost[s->costs - 1], "greedy removal");
			if (!remove_next(s, &mask, &now, loss, error))
				return false;
		}
		if (!show(s, "greedy removal", s->cost[c], 0, &mask, error))
			return false;
	}
	return true;
}

/* ---- the search ----------------------------------------------------------------------------- */

static struct search* open_search(const struct searching* s, const struct proposer* p, double cost,
                                  struct error* error) {
	const struct lab* lab = &s->lab;
	const struct search_options options = {.blocks = lab->blocks,
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
	    .attention = lab->attention, .mlp = lab->mlp, .fixed = lab->fixed, .max_draft = 25};
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = 1 + 0.1 * (n - 1);
	struct search* search = search_open(&options, error);
	if (!search)
		return NULL;
	search_set_costs(search, &costs);
	double influence[2 * MAX_BLOCKS] = {0};
	for (int i = 1; i < 2 * lab->blocks; i++)
		influence[i] = spans_influence(&lab->spans, i, i + 1);
	if (p->spans)
		search_set_spans(search, &lab->spans);
	else if (p->bayes_interval > 0)
		search_set_influence(search, influence, lab->spans.rows);
	return search;
}

static bool run_search(struct searching* s, const struct proposer* p, double cost, struct error* error) {
	struct search* search = open_search(s, p, cost, error);
	const struct lab_half* half = &s->lab.half[LAB_LEARN];
	bool good = search != NULL;
	for (int scored = 0, at = 0; good && !interrupted() && at < CHECKPOINTS && checkpoint[at] <= s->most;
	     scored++) {
		if (checkpoint[at] == scored) {
			const struct mask best = search_best(search, NULL);
			good = show(s, p->name, cost, checkpoint[at++], &best, error);
		}
		struct proposal proposal;
		struct lab_score score = {0};
		const int w = scored / SEARCH_SPANS * s->windows % half->windows;
		int rows = 0;
		for (int i = w; i < w + s->windows; i++)
			rows += half->window[i % half->windows].size;
		search_window(search, scored / SEARCH_SPANS + 1, rows);
		bench_progress((double)scored / s->most, "%s", p->name);
		good = good && search_propose(search, &proposal) &&
		       lab_score(&s->lab, LAB_LEARN, &proposal.mask, w, s->windows, &score, error);
		proposal.log_probability = score.log_probability / score.rows;
		if (good)
			search_observe(search, &proposal, score.matches, score.rows);
	}
	search_close(search);
	return good;
}

static bool run_all(struct searching* s, struct error* error) {
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

static int prepare(struct bench_part* part) {
	struct searching* s = (struct searching*)part;
	return read_costs(s, s->list)
	           ? OPTIONS_GO_ON
	           : complain(STATUS_USAGE,
	                      "bench search: --costs %s, expected up to %d numbers over 0 and under 100", s->list,
	                      MOST_COSTS);
}

static bool measure(struct bench_part* part, cJSON* out, struct error* error) {
	struct searching* s = (struct searching*)part;
	struct prompt_list list = {.n = 0};
	bool good = prompt_list_read(&list, part->bench.model, s->input, error);
	for (int i = 0; i < list.n; i++)
		if (list.prompt[i].max_tokens > s->tokens)
			list.prompt[i].max_tokens = s->tokens;
	good = good && lab_open(&s->lab, &part->bench, &part->options, list.prompt, list.n, error);
	if (good) {
		bench_json_number(out, "attention", s->lab.attention);
		bench_json_number(out, "mlp", s->lab.mlp);
		bench_json_number(out, "rest", s->lab.fixed);
		bench_json_number(out, "windows_searched_on", s->lab.half[LAB_LEARN].windows);
		bench_json_number(out, "windows_that_judge", s->lab.half[LAB_JUDGE].windows);
		s->rows = cJSON_AddArrayToObject(out, "rows");
		good = run_all(s, error);
	}
	lab_close(&s->lab);
	prompt_list_free(&list);
	return good;
}

int bench_search_main(int argc, char** argv) {
	struct searching s = {.part = {.prepare = prepare, .measure = measure},
	                      .list = "10,20,30,40,50",
	                      .most = 300,
	                      .tokens = 160,
	                      .windows = 8};
	const struct option option[] = {
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
	    .usage = "[MODEL|-m MODEL] [-i FILE] [--costs LIST] [--proposals N] [--only NAME] [--json] [options]",
	    .about = "Which ways of proposing masks find good ones: one-step alpha on answers that were not "
	             "searched on,\n"
	             "by share of cost saved, beside the best span and greedy removal on all of the answers "
	             "searched on.",
	    .examples = "  swiftlet bench search -m model.gguf -i tools/chat.jsonl",
	    OPTIONS(option),
	};
	return bench_part_main(&s.part, &line, argc, argv);
}
