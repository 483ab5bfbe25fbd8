/* `swiftlet bench search`: which proposers find good masks on a real model, at what cost saved.
 *
 * The model answers prompts; every other answer is searched on, the rest judge. For each share of a plain
 * step's cost: the best span by exhaustive trial, greedy removal, and the search's own proposers, scored on
 * windows one after another as serving gives them. What is judged is one-step alpha. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lab/search_lab.h"

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
	struct bench bench;
	struct lab* lab;
	const char* only; /* proposers whose name begins so */
	double cost[MOST_COSTS];
	int costs;
	int64_t most, tokens, windows;
	bool references;
	cJSON* rows;
};

/* ---- a row of the table --------------------------------------------------------------------- */

static bool show(struct searching* s, const char* name, double cost, int after, const struct mask* mask,
                 struct error* error) {
	const double alpha = lab_alpha(s->lab, LAB_JUDGE, mask, error);
	if (alpha < 0)
		return false;
	if (s->rows) {
		cJSON* row = cJSON_CreateObject();
		cJSON_AddItemToArray(s->rows, row);
		cJSON_AddStringToObject(row, "proposer", name);
		cJSON_AddNumberToObject(row, "cost", cost);
		cJSON_AddNumberToObject(row, "proposals", after);
		cJSON_AddNumberToObject(row, "saved", lab_saved(s->lab, mask));
		cJSON_AddNumberToObject(row, "alpha", alpha);
		return true;
	}
	bench_progress_end();
	printf("%4.0f %%  %-28s %6d  %.3f  %.3f ", 100 * cost, name, after, lab_saved(s->lab, mask), alpha);
	for (int i = 0; i < 2 * s->lab->blocks; i++)
		if (mask_has(mask, i))
			printf(" %s%d", i & 1 ? "m" : "a", i / 2);
	putchar('\n');
	fflush(stdout);
	return true;
}

/* ---- what a mask could be ------------------------------------------------------------------- */

/* Mean log-probability on the windows to search on. */
static bool quality(struct searching* s, const struct mask* mask, double* mean, struct error* error) {
	struct lab_score score = {0};
	const int windows = s->lab->half[LAB_LEARN].windows;
	if (!lab_score(s->lab, LAB_LEARN, mask, 0, windows, &score, error))
		return false;
	*mean = score.log_probability / score.rows;
	return true;
}

/* Of whole blocks' beginnings, each as long as the cost wants. */
static bool best_span(struct searching* s, double cost, struct mask* best, struct error* error) {
	double most = -INFINITY, mean;
	const int end = 2 * s->lab->blocks - 2;
	for (int first = 2; first < end; first += 2) {
		struct mask mask = {.word = {0}};
		for (int i = first; i < end && lab_saved(s->lab, &mask) < cost - 1e-9; i++)
			mask_set(&mask, i, true);
		if (lab_saved(s->lab, &mask) < cost - 1e-9)
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
		for (int i = 2; i < 2 * s->lab->blocks - 2; i++)
			if (!mask_has(mask, i) && (best < 0 || loss[i] < loss[best]))
				best = i;
		const double saves = best & 1 ? s->lab->mlp : s->lab->attention;
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
	for (int i = 0; i < 2 * s->lab->blocks; i++)
		loss[i] = -INFINITY;
	if (!quality(s, &mask, &now, error))
		return false;
	for (int c = 0; c < s->costs; c++) {
		while (lab_saved(s->lab, &mask) < s->cost[c] - 1e-9) {
			bench_progress(lab_saved(s->lab, &mask) / s->cost[s->costs - 1], "greedy removal");
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
	const struct lab* lab = s->lab;
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
	const struct lab_half* half = &s->lab->half[LAB_LEARN];
	bool good = search != NULL;
	for (int scored = 0, at = 0; good && at < CHECKPOINTS && checkpoint[at] <= s->most; scored++) {
		if (checkpoint[at] == scored) {
			const struct mask best = search_best(search, NULL);
			good = show(s, p->name, cost, checkpoint[at++], &best, error);
		}
		struct proposal proposal;
		struct lab_score score = {0};
		const int w = scored / SEARCH_SPANS * (int)s->windows % half->windows;
		int rows = 0;
		for (int i = w; i < w + (int)s->windows; i++)
			rows += half->window[i % half->windows].size;
		search_window(search, scored / SEARCH_SPANS + 1, rows);
		bench_progress((double)scored / (double)s->most, "%s", p->name);
		good = good && search_propose(search, &proposal) &&
		       lab_score(s->lab, LAB_LEARN, &proposal.mask, w, (int)s->windows, &score, error);
		proposal.log_probability = score.log_probability / score.rows;
		if (good)
			search_observe(search, &proposal, score.matches, score.rows, NAN);
	}
	search_close(search);
	return good;
}

static bool run_all(struct searching* s, struct error* error) {
	if (!s->rows)
		printf("attention %.4f, MLP %.4f, the rest %.4f of a plain step's bytes; %d windows to search on, %d "
		       "to judge\n"
		       "cost    proposer                  proposals  saved  alpha\n",
		       s->lab->attention, s->lab->mlp, s->lab->fixed, s->lab->half[0].windows,
		       s->lab->half[1].windows);
	if (s->references && !references(s, error))
		return false;
	for (int c = 0; c < s->costs; c++)
		for (int p = 0; p < PROPOSERS; p++)
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

static int run(struct searching* s, const char* model, const char* input, struct swiftlet_options* options,
               bool json) {
	struct error error = {{0}};
	struct prompt_list list = {.n = 0};
	int status = bench_open(&s->bench, model, options, json);
	cJSON* out = json ? cJSON_CreateObject() : NULL;
	s->rows = json ? cJSON_AddArrayToObject(out, "rows") : NULL;
	s->lab = calloc(1, sizeof *s->lab);
	if (status == OPTIONS_GO_ON) {
		bool good = s->lab && prompt_list_read(&list, s->bench.model, input, &error);
		for (int i = 0; i < list.n; i++)
			if (list.prompt[i].max_tokens > s->tokens)
				list.prompt[i].max_tokens = (int)s->tokens;
		good =
		    good && lab_open(s->lab, &s->bench, options, list.prompt, list.n, &error) && run_all(s, &error);
		bench_progress_end();
		status = good ? STATUS_DONE : complain(STATUS_FAILED, "%s", error.message);
	}
	if (s->lab)
		lab_close(s->lab);
	free(s->lab);
	prompt_list_free(&list);
	bench_close(&s->bench);
	if (json && status == STATUS_DONE)
		return bench_print_json(out);
	cJSON_Delete(out);
	return status;
}

int bench_search_main(int argc, char** argv) {
	struct searching s = {.most = 300, .tokens = 160, .windows = 8, .references = true};
	struct swiftlet_options options;
	const char *model_option = NULL, *input = NULL, *costs = "10,20,30,40,50";
	bool json = false, alone = false;
	const struct option option[] = {
	    {"model", 'm', "MODEL", "a model (builtin)", OPTION_TEXT, &model_option, 0, 0},
	    {"input", 'i', "FILE", "prompts, as `swiftlet stream` takes them: every other one judges",
	     OPTION_TEXT, &input, 0, 0},
	    {"costs", 0, "LIST", "percent of a plain step's cost to save (10,20,30,40,50)", OPTION_TEXT, &costs,
	     0, 0},
	    {"tokens", 'n', "N", "tokens of an answer at most (160)", OPTION_COUNT, &s.tokens, 16, 4096},
	    {"proposals", 0, "N", "the most that a search makes (300)", OPTION_COUNT, &s.most, 0, 300},
	    {"windows", 0, "N", "windows of 32 rows that a proposal is scored on (8)", OPTION_COUNT, &s.windows,
	     1, 64},
	    {"only", 0, "NAME", "proposers whose name begins so", OPTION_TEXT, &s.only, 0, 0},
	    {"no-references", 0, NULL, "without the best span and greedy removal", OPTION_FLAG, &alone, 0, 0},
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0}};
	struct command_line line = {
	    .name = "bench search",
	    .usage = "[MODEL|-m MODEL] [-i FILE] [--costs LIST] [--proposals N] [--only NAME] [--json] [options]",
	    .about = "Which ways of proposing masks find good ones: one-step alpha on answers that were not "
	             "searched on,\n"
	             "by share of cost saved, beside the best span and greedy removal on all of the answers "
	             "searched on.",
	    .examples = "  swiftlet bench search -m model.gguf -i tools/chat.jsonl",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &options,
	    .max_words = 1};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	const char* const model = options_model(&line, model_option);
	if (!model)
		return STATUS_USAGE;
	if (!read_costs(&s, costs))
		return complain(STATUS_USAGE,
		                "bench search: --costs %s, expected up to %d numbers over 0 and under 100", costs,
		                MOST_COSTS);
	s.references = !alone;
	return run(&s, model, input, &options, json);
}
