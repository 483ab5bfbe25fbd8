/* swiftlet learn: searches without a budget, before the model serves. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "optimizer/optimizer.h"
#include "streams/memory/memory.h"
#include "tools/program/command.h"
#include "tools/program/completion.h"
#include "tools/program/draw_mask.h"
#include "tools/program/interrupt.h"
#include "tools/program/progress.h"
#include "tools/program/prompt_list.h"
#include "tools/program/runtime.h"
#include "tools/program/tables.h"

enum { FIRST_TOKENS = 160, MOST_TOKENS = FIRST_TOKENS << 12 };

struct learn {
	const char* input;
	int64_t seconds;
	bool json;
	struct runtime runtime;
	struct completion completion;
	struct prompt_list prompts;
	cJSON* curve;  /* one point a text: the score on it of the best mask before it */
	double unseen; /* of the last one; NaN: none was judged */
	int64_t proposals;
	double began, shown_at;
};

/* ---- learning ------------------------------------------------------------------------------- */

static double elapsed_seconds(const struct learn* l) { return seconds_now() - l->began; }

static void show_progress(void* user) {
	struct learn* const l = user;
	const double now = elapsed_seconds(l), share = now / (double)l->seconds;
	char unseen[40] = "";
	if (now - l->shown_at < 0.1)
		return;
	l->shown_at = now;
	if (!isnan(l->unseen))
		snprintf(unseen, sizeof unseen, "  matchness on unseen text %.2f", l->unseen);
	progress_show(share < 1 ? share : 1, "%.0f of %" PRId64 " s  %" PRId64 " proposals%s", now, l->seconds,
	              l->proposals, unseen);
}

/* Generates a prompt's text with the best mask so far, which is then scored on it. */
static bool next_text(struct learn* l, const struct prompt* prompt, int tokens, struct error* error) {
	swiftlet_session* const session = l->runtime.session;
	const struct swiftlet_request request =
	    request_for(&l->runtime.options, prompt->id, prompt->n, tokens, prompt->task);
	if (!completion_run(&l->completion, session, &request, error))
		return false;
	l->proposals += l->completion.figures.optimize_steps;
	const struct mask mask = session_mask(session, NULL);
	int matches, rows;
	if (!session_judge(session, &mask, &matches, &rows, error))
		return false;
	if (rows == 0)
		return true;
	l->unseen = (double)matches / rows;
	cJSON* const point = cJSON_CreateObject();
	cJSON_AddNumberToObject(point, "seconds", elapsed_seconds(l));
	cJSON_AddNumberToObject(point, "proposals", (double)l->proposals);
	cJSON_AddNumberToObject(point, "rows", rows);
	cJSON_AddNumberToObject(point, "unseen_matchness", l->unseen);
	cJSON_AddNumberToObject(point, "expected_speedup", search_speedup(session_search(session)));
	cJSON_AddNumberToObject(point, "skip_ratio", l->completion.figures.skip_ratio);
	cJSON_AddItemToArray(l->curve, point);
	return true;
}

/* Continues the search on the last text for some seconds, and for at least a few proposals, unless it has
 * ended. */
static bool search_text(struct learn* l, double seconds, struct error* error) {
	enum { AT_LEAST = 8 };
	swiftlet_session* const session = l->runtime.session;
	const double until = seconds_now() + seconds;
	struct search* const search = session_search(session);
	struct session_work work;
	const int64_t enough = l->proposals + AT_LEAST;
	while ((seconds_now() < until || l->proposals < enough) && elapsed_seconds(l) < (double)l->seconds &&
	       !interrupted() && session_next_idle(session, &work)) {
		if (!session_run(session, &work, error))
			return false;
		const int before = search_steps(search);
		session_absorb(session, &work, work.pass.n, 0);
		l->proposals += search_steps(search) - before;
		show_progress(l);
	}
	if (l->runtime.watch)
		memory_idle(l->runtime.watch);
	return true;
}

/* Generates each prompt's text and searches on it for as long as that took. Windows of one text agree with
 * each other, so many texts teach more than many windows. Later rounds go further into each text. */
static bool learn_masks(struct learn* l, struct error* error) {
	l->began = seconds_now();
	int tokens = FIRST_TOKENS;
	for (int turn = 0, i = 0; elapsed_seconds(l) < (double)l->seconds && !interrupted(); i++) {
		if (i == l->prompts.n) {
			i = 0;
			turn++;
			tokens =
			    tokens < MOST_TOKENS ? 2 * tokens : MOST_TOKENS; /* a text that ends early has many turns */
		}
		const double began = seconds_now();
		if (!next_text(l, &l->prompts.prompt[i], tokens, error))
			return false;
		if (!search_text(l, seconds_now() - began, error))
			return false;
	}
	return true;
}

/* ---- the end -------------------------------------------------------------------------------- */

static double number_of(const cJSON* point, const char* name) {
	return cJSON_GetNumberValue(cJSON_GetObjectItem(point, name));
}

/* The mean over the last texts, with at least a quarter of all scored rows. */
static double unseen_matchness(const struct learn* l) {
	double matches = 0, rows = 0, all = 0;
	const cJSON* p;
	cJSON_ArrayForEach (p, l->curve)
		all += number_of(p, "rows");
	for (p = all > 0 ? l->curve->child->prev : NULL; p && rows < 0.25 * all; p = p->prev) {
		matches += number_of(p, "unseen_matchness") * number_of(p, "rows");
		rows += number_of(p, "rows");
	}
	return rows > 0 ? matches / rows : (double)NAN;
}

/* The curve goes along. */
static cJSON* figures_of(struct learn* l) {
	cJSON* const out = cJSON_CreateObject();
	cJSON_AddNumberToObject(out, "seconds", elapsed_seconds(l));
	cJSON_AddNumberToObject(out, "proposals", (double)l->proposals);
	cJSON_AddNumberToObject(out, "unseen_matchness", unseen_matchness(l));
	cJSON_AddItemToObject(out, "curve", l->curve);
	return out;
}

/* Prints the curve as a table, then the result. */
static void print_result(const struct learn* l) {
	const double speedup = search_speedup(session_search(l->runtime.session));
	const struct mask mask = session_mask(l->runtime.session, NULL);
	table_print(l->curve);
	putchar('\n');
	draw_mask(stdout, &mask, l->runtime.model->weights.shape.n_blocks);
	if (speedup > 1)
		printf("%s are expected to make decoding %.2f times as fast: an answer\n"
		       "takes %.0f %% less time. They predict %.0f %% of the tokens of text that the search had not "
		       "seen.\n",
		       mask.has_levels         ? "Drafts that read these shares of the weights"
		       : mask_count(&mask) > 0 ? "Drafts that leave these layers out"
		                               : "Drafts with quantized weights, and no layer left out,",
		       speedup, 100 * (1 - 1 / speedup), 100 * unseen_matchness(l));
	else
		puts("Leaving layers out does not pay on this machine and text: no mask is used, and nothing "
		     "changes.\n"
		     "Drafts still come from earlier text and, where that pays, from quantized weights.");
	if (l->runtime.memory && memory_store(l->runtime.memory))
		printf("The result is kept in %s, where run, chat, stream and serve look for it.\n",
		       store_path(memory_store(l->runtime.memory)));
}

static int finish_learning(struct learn* l) {
	progress_end();
	int status = STATUS_DONE;
	if (!l->json)
		print_result(l);
	cJSON* const figures = figures_of(l);
	l->curve = NULL;
	if (l->json)
		status = report_print(figures, true);
	else
		cJSON_Delete(figures);
	const bool good = runtime_save_mask(&l->runtime, &l->completion.figures, NULL, 0);
	return output_written(good ? status : STATUS_FAILED);
}

static int close_learn(struct learn* l, int status) {
	prompt_list_free(&l->prompts);
	cJSON_Delete(l->curve);
	completion_free(&l->completion);
	return runtime_close(&l->runtime, status);
}

static int open_learn(struct learn* l) {
	struct error error = {{0}};
	l->runtime.options.draft_weights.wait = true; /* this is the time to make draft weights */
	int status = runtime_open(&l->runtime);
	if (status != OPTIONS_GO_ON)
		return status;
	l->curve = cJSON_CreateArray();
	l->unseen = NAN;
	if (!session_search(l->runtime.session))
		return complain(STATUS_FAILED, "learn: there is nothing to search for: %s",
		                !options_plan(&l->runtime.options) ? "only --method auto and swift search for masks"
		                                                   : "the model has fewer than three blocks");
	if (!prompt_list_read(&l->prompts, l->runtime.model, l->input, &error))
		return complain(STATUS_FAILED, "%s", error.message);
	l->completion.watch = l->runtime.watch;
	l->completion.on_step = show_progress;
	l->completion.on_user = l;
	return OPTIONS_GO_ON;
}

int command_learn(int argc, char** argv) {
	struct learn l = {.seconds = 60};
	const struct command_option option[] = {
	    TEXT("input", 'i', "FILE", "prompts like those to come, one JSON object a line (-: standard input)",
	         &l.input),
	    COUNT("seconds", 0, "N", "how long to search", &l.seconds, 1, 1 << 24),
	    FLAG("json", "print one JSON object instead of a table", &l.json),
	    MODEL_OPTION(l.runtime.wish),
	    MORE_OPTIONS,
	    RUNTIME_OPTIONS(l.runtime.wish),
	};
	struct command_line line = {
	    .name = "learn",
	    .usage = "MODEL [-i FILE.jsonl] [--seconds 60] [options]",
	    .about =
	        "Searches for layers that drafts can skip, before the model serves. It generates text, scores\n"
	        "masks on it without a time limit of its own, and keeps the result, which run, chat, stream\n"
	        "and serve begin with. On many machines no mask pays; learn then reports that, and nothing\n"
	        "changes. Ctrl-C ends it early and keeps what was found.\n\n"
	        "The table has a row for each text: how many tokens of it were scored, the share of them that\n"
	        "the draft predicted before the search saw the text (unseen matchness), and how many times as\n"
	        "fast as plain decoding the mask is expected to be.",
	    .examples = "  swiftlet learn model.gguf --seconds 300\n"
	                "  swiftlet learn model.gguf -i prompts.jsonl",
	    OPTIONS(option),
	    .session = &l.runtime.options,
	    .without = "Sampling",
	    .max_words = 1,
	};
	int status = options_parse_model(&line, argc, argv, &l.runtime.wish.model);
	if (status == OPTIONS_GO_ON)
		status = open_learn(&l);
	if (status == OPTIONS_GO_ON) {
		struct error error = {{0}};
		interrupt_watch();
		status = learn_masks(&l, &error) ? finish_learning(&l) : complain(STATUS_FAILED, "%s", error.message);
	}
	return close_learn(&l, status);
}
