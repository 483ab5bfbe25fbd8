/* swiftlet learn: the search without a budget, before one serves. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/decode/engine.h"
#include "optimizer/optimizer.h"
#include "streams/memory/memory.h"
#include "tools/program/bridge_trial.h"
#include "tools/program/command.h"
#include "tools/program/draw_mask.h"
#include "tools/program/generation.h"
#include "tools/program/interrupt.h"
#include "tools/program/prompt_list.h"
#include "tools/program/runtime.h"

enum { MOST_POINTS = 4096, FIRST_TOKENS = 160 };

struct point { /* after a text: how the mask that was best before it does on it */
	double seconds;
	int64_t proposals;
	double unseen, speedup, skip_ratio;
	int rows;
};

struct learn {
	struct runtime_wish wish;
	const char* input;
	int64_t seconds;
	bool json, live, bridges;
	struct runtime runtime;
	struct generation generation;
	struct prompt_list prompts;
	struct point* point; /* (points) */
	int points;
	int64_t proposals;
	double began, shown_at;
};

/* ---- learning ------------------------------------------------------------------------------- */

static double elapsed(const struct learn* l) { return seconds_now() - l->began; }

static void show_progress(void* user) {
	struct learn* const l = user;
	const double now = elapsed(l);
	if (!l->live || now - l->shown_at < 0.1)
		return;
	l->shown_at = now;
	const int done = (int)(20 * now / (double)l->seconds);
	fprintf(stderr, "\r\033[K[%.*s%.*s] %3.0f of %" PRId64 " s  %" PRId64 " proposals", done < 20 ? done : 20,
	        "####################", done < 20 ? 20 - done : 0, "....................", now, l->seconds,
	        l->proposals);
	if (l->points > 0)
		fprintf(stderr, "  matchness on unseen text %.2f", l->point[l->points - 1].unseen);
	fflush(stderr);
}

/* The text of a prompt, with the mask that is best so far, which is then judged on it. */
static bool next_text(struct learn* l, const struct prompt* prompt, int tokens, struct error* error) {
	swiftlet_session* const session = l->runtime.session;
	struct swiftlet_request request;
	swiftlet_request_default(&request, &l->runtime.options);
	request.prompt = prompt->id;
	request.n_prompt = prompt->n;
	request.max_tokens = tokens;
	request.task = prompt->task;
	if (!generation_run(&l->generation, session, &request, error))
		return false;
	l->proposals += l->generation.figures.optimize_steps;
	const struct mask mask = session_mask(session, NULL);
	int matches, rows;
	if (!session_judge(session, &mask, &matches, &rows, error))
		return false;
	if (rows == 0 || l->points == MOST_POINTS)
		return true;
	const struct search* const search = session_search(session);
	l->point[l->points++] = (struct point){.seconds = elapsed(l),
	                                       .proposals = l->proposals,
	                                       .unseen = (double)matches / rows,
	                                       .rows = rows,
	                                       .speedup = search_speedup(search),
	                                       .skip_ratio = l->generation.figures.skip_ratio};
	return true;
}

/* Goes on searching on the last text for some seconds and a few proposals at least, or until that has ended.
 */
static bool search_text(struct learn* l, double seconds, struct error* error) {
	enum { AT_LEAST = 8 };
	swiftlet_session* const session = l->runtime.session;
	const double until = seconds_now() + seconds;
	struct search* const search = session_search(session);
	struct session_work work;
	const int64_t enough = l->proposals + AT_LEAST;
	while ((seconds_now() < until || l->proposals < enough) && elapsed(l) < (double)l->seconds &&
	       !interrupted() && session_next_idle(session, &work)) {
		if (!session_run(session, &work, error))
			return false;
		const int before = search_steps(search);
		session_absorb(session, &work, 0);
		l->proposals += search_steps(search) - before;
		show_progress(l);
	}
	if (l->runtime.watch)
		memory_idle(l->runtime.watch);
	return true;
}

/* Each prompt's text, and a search on it for as long as it took to write: windows of one text agree with one
 * another, so many texts tell more than many windows. Later turns go further into each text. */
static bool learn(struct learn* l, struct error* error) {
	l->began = seconds_now();
	int tokens = FIRST_TOKENS;
	for (int turn = 0, i = 0; elapsed(l) < (double)l->seconds && !interrupted(); i++) {
		if (i == l->prompts.n) {
			i = 0;
			turn++;
			tokens *= 2;
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

/* The mean over the last texts, of at least a quarter of all rows judged. */
static double unseen_matchness(const struct learn* l) {
	double matches = 0, rows = 0, all = 0;
	for (int i = 0; i < l->points; i++)
		all += l->point[i].rows;
	for (int i = l->points - 1; i >= 0 && rows < 0.25 * all; i--) {
		matches += l->point[i].unseen * l->point[i].rows;
		rows += l->point[i].rows;
	}
	return rows > 0 ? matches / rows : (double)NAN;
}

static void print_number(const char* name, double value) {
	if (isfinite(value))
		printf("\"%s\": %.4f", name, value);
	else
		printf("\"%s\": null", name);
}

static void print_json(const struct learn* l, const cJSON* bridges) {
	printf("{\"seconds\": %.2f, \"proposals\": %" PRId64 ", ", elapsed(l), l->proposals);
	print_number("unseen_matchness", unseen_matchness(l));
	printf(", \"curve\": [");
	for (int i = 0; i < l->points; i++) {
		const struct point* const p = &l->point[i];
		printf("%s{\"seconds\": %.2f, \"proposals\": %" PRId64 ", \"rows\": %d, ", i ? ", " : "", p->seconds,
		       p->proposals, p->rows);
		print_number("unseen_matchness", p->unseen);
		printf(", ");
		print_number("expected_speedup", p->speedup);
		printf(", ");
		print_number("skip_ratio", p->skip_ratio);
		printf("}");
	}
	char* const text = bridges ? cJSON_PrintUnformatted(bridges) : NULL;
	printf("]%s%s}\n", text ? ", \"trial\": " : "", text ? text : "");
	free(text);
}

static void print_table(const struct learn* l) {
	printf("%9s  %9s  %21s  %17s  %10s\n", "seconds", "proposals", "matchness, unseen text",
	       "expected speed-up", "skip ratio");
	for (int i = 0; i < l->points; i++) {
		const struct point* const p = &l->point[i];
		printf("%9.1f  %9" PRId64 "  %22.3f  %17.2f  %10.2f\n", p->seconds, p->proposals, p->unseen,
		       p->speedup, p->skip_ratio);
	}
	const char* with = engine_low(l->runtime.engine) ? ", with the copy for drafting" : "";
	printf("\nmatchness on unseen text%s, the last quarter: %.3f\n", with, unseen_matchness(l));
	const struct mask mask = session_mask(l->runtime.session, NULL);
	draw_mask(stdout, &mask, l->runtime.model->weights.shape.n_blocks);
	if (l->runtime.memory && memory_store(l->runtime.memory))
		printf("kept in %s: run, chat, stream and serve begin with it\n",
		       store_path(memory_store(l->runtime.memory)));
}

static void show_trial(double share, const char* what) {
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K[%3.0f %%] %s", 100 * share, what);
}

/* The same prompts once more: half of them are learned from, the others judge. */
static bool try_bridges(struct learn* l, struct bridge_trial* trial, struct error* error) {
	trial->maker = (struct text_maker){l->runtime.engine,
	                                   options_context(&l->runtime.options, l->runtime.model), show_trial};
	trial->judge = l->prompts;
	trial->tokens = 8000;
	for (int n = 1; n <= BRIDGE_ROWS; n++)
		trial->verify[n] = cost_verify(&l->runtime.engine->cost, n);
	l->prompts.n = 0;
	const bool good = bridge_trial_split(trial, error) && bridge_trial_run(trial, NULL, error);
	show_trial(1, "");
	return good;
}

static int finish(struct learn* l) {
	struct bridge_trial* const trial = l->bridges ? calloc(1, sizeof *trial) : NULL;
	struct error error = {"out of memory"};
	cJSON* const bridges = l->bridges && l->json ? cJSON_CreateObject() : NULL;
	if (l->live)
		fputs("\r\033[K", stderr);
	bool good =
	    !l->bridges || (trial && try_bridges(l, trial, &error)) || complain(false, "%s", error.message);
	if (bridges && good)
		bridge_trial_json(trial, bridges);
	if (l->json)
		print_json(l, bridges);
	else
		print_table(l);
	if (trial && good && !l->json) {
		printf("\nBlocks left out, with and without a bridge fitted in their place:\n");
		bridge_trial_print(trial);
	}
	cJSON_Delete(bridges);
	if (trial)
		bridge_trial_close(trial);
	free(trial);
	good = runtime_save_mask(&l->runtime, &l->wish, &l->generation.figures, NULL, 0) && good;
	good = runtime_keep(&l->runtime) && good;
	if (fflush(stdout) != 0 || ferror(stdout))
		good = complain(false, "standard output could not be written");
	return good ? STATUS_DONE : STATUS_FAILED;
}

static void close_learn(struct learn* l) {
	prompt_list_free(&l->prompts);
	free(l->point);
	generation_free(&l->generation);
	runtime_close(&l->runtime);
	free(l);
}

static int open_learn(struct learn* l, const struct swiftlet_options* options) {
	struct error error = {{0}};
	struct swiftlet_options waiting = *options;
	waiting.draft_wait = true; /* this is the time to make a copy for drafting */
	int status = runtime_open(&l->runtime, &l->wish, &waiting, seconds_now());
	if (status != OPTIONS_GO_ON)
		return status;
	l->point = calloc(MOST_POINTS, sizeof *l->point);
	if (!l->point)
		return complain(STATUS_FAILED, "out of memory");
	if (!session_search(l->runtime.session))
		return complain(STATUS_FAILED, "learn: there is nothing to search for: %s",
		                !method_plans(options) ? "--method auto and swift alone search for masks"
		                                       : "the model has fewer than three blocks");
	if (!prompt_list_read(&l->prompts, l->runtime.model, l->input, &error))
		return complain(STATUS_FAILED, "%s", error.message);
	l->live = isatty(STDERR_FILENO) != 0;
	l->generation.watch = l->runtime.watch;
	l->generation.on_step = show_progress;
	l->generation.on_user = l;
	return OPTIONS_GO_ON;
}

int command_learn(int argc, char** argv) {
	struct learn* const l = calloc(1, sizeof *l);
	if (!l)
		return complain(STATUS_FAILED, "out of memory");
	l->seconds = 60;
	struct swiftlet_options options;
	const struct option option[] = {
	    {"input", 'i', "FILE", "prompts like those to come, one JSON object a line\n(-: standard input)",
	     OPTION_TEXT, &l->input, 0, 0},
	    {"seconds", 0, "N", "how long (60)", OPTION_COUNT, &l->seconds, 1, 1 << 24},
	    {"bridges", 0, NULL, "then fit bridges for spans of blocks, and show what each would\nbring",
	     OPTION_FLAG, &l->bridges, 0, 0},
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &l->json, 0, 0},
	    RUNTIME_OPTIONS(l->wish),
	};
	struct command_line line = {
	    .name = "learn",
	    .usage = "[MODEL|-m MODEL] [-i FILE.jsonl] [--seconds 60] [options]",
	    .about =
	        "Searches for the layers to skip before one serves: generates text, scores masks on it without "
	        "a\n"
	        "budget, and keeps what it finds where run, chat, stream and serve look for it. The curve shows\n"
	        "each mask on text that no search had seen. Ctrl-C ends early and keeps what was found.",
	    .examples = "  swiftlet learn ~/models/llama-3-8b.gguf --seconds 300\n"
	                "  swiftlet learn -m model.gguf -i prompts.jsonl",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &options,
	    .max_words = 1,
	};
	int status = options_parse_model(&line, argc, argv, &l->wish.model);
	if (status == OPTIONS_GO_ON)
		status = open_learn(l, &options);
	if (status == OPTIONS_GO_ON) {
		struct error error = {{0}};
		interrupt_watch();
		status = learn(l, &error) ? finish(l) : complain(STATUS_FAILED, "%s", error.message);
	}
	close_learn(l);
	return status;
}
