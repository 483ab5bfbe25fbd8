/* `swiftlet bench bridge`: what bridges make of spans that are left out (tools/program/bridge_trial.h), from
 * prompts of a file to learn from and others that judge. */
#include <stdlib.h>
#include <string.h>

#include "tools/lab/bench.h"
#include "tools/lab/prices.h"
#include "tools/program/bridge_trial.h"
#include "tools/program/runtime.h"

static void progress(double share, const char* what) { bench_progress(share, "%s", what); }

static int run(const char* model, const struct swiftlet_options* options, bool json,
               struct bridge_trial* trial, const char* const file[2], const char* spans,
               const char* price_text) {
	struct error error = {{0}};
	struct bench bench;
	struct price_list prices;
	if (!prices_read(&prices, price_text, &error))
		return complain(STATUS_USAGE, "%s", error.message);
	memcpy(trial->verify, prices.verify, sizeof trial->verify);
	int status = bench_open(&bench, model, options, json);
	if (status == OPTIONS_GO_ON) {
		trial->maker = (struct text_maker){bench.engine, options_context(options, bench.model), progress};
		const bool good = prompt_list_read(&trial->judge, bench.model, file[0], &error) &&
		                  (file[1] ? prompt_list_read(&trial->learn, bench.model, file[1], &error)
		                           : bridge_trial_split(trial, &error)) &&
		                  bridge_trial_run(trial, spans, &error);
		bench_progress_end();
		status = STATUS_DONE;
		if (!good)
			status = complain(STATUS_FAILED, "%s", error.message);
		else if (json) {
			cJSON* out = cJSON_CreateObject();
			bench_describe(&bench, out);
			bridge_trial_json(trial, out);
			status = bench_print_json(out);
		} else {
			printf("%s on %s: ", swiftlet_model_name(bench.model), swiftlet_engine_name(bench.engine));
			bridge_trial_print(trial);
		}
	}
	bridge_trial_close(trial);
	bench_close(&bench);
	return status;
}

int bench_bridge_main(int argc, char** argv) {
	struct swiftlet_options options;
	const char *model_option = NULL, *spans = NULL, *price_text = "slope=0.05";
	const char* file[2] = {NULL, NULL};
	bool json = false;
	struct bridge_trial* trial = calloc(1, sizeof *trial);
	if (!trial)
		return complain(STATUS_FAILED, "out of memory");
	trial->tokens = 8000;
	const struct option option[] = {
	    {"model", 'm', "MODEL", "a model (builtin)", OPTION_TEXT, &model_option, 0, 0},
	    {"json", 0, NULL, "print one JSON object instead of a table", OPTION_FLAG, &json, 0, 0},
	    {"input", 'i', "FILE", "prompts, as `swiftlet stream` takes them", OPTION_TEXT, &file[0], 0, 0},
	    {"learn", 0, "FILE", "prompts to learn from (every other of the prompts)", OPTION_TEXT, &file[1], 0,
	     0},
	    {"spans", 0, "LIST", "blocks that are left out, 9-16,4-18 (those of least influence)", OPTION_TEXT,
	     &spans, 0, 0},
	    {"tokens", 0, "N", "tokens to learn from (8000)", OPTION_COUNT, &trial->tokens, 1, 1 << 30},
	    {"prices", 0, "LIST|FILE", "of rows, as bench replay takes them (slope=0.05)", OPTION_TEXT,
	     &price_text, 0, 0},
	};
	struct command_line line = {
	    .name = "bench bridge",
	    .usage = "[MODEL|-m MODEL] [-i FILE] [--learn FILE] [--spans LIST] [--tokens N] [--json] [options]",
	    .about = "Counts how often a draft step is right that leaves a span of blocks out, bare and with a\n"
	             "bridge in its place that was fitted by least squares to states of full passes.",
	    .examples = "  swiftlet bench bridge -m model.gguf -i tools/chat.jsonl --tokens 2000",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	    .session = &options,
	    .max_words = 1,
	};
	int status = options_parse(&line, argc, argv);
	const char* const model = status == OPTIONS_GO_ON ? options_model(&line, model_option) : NULL;
	if (status == OPTIONS_GO_ON)
		status = model ? run(model, &options, json, trial, file, spans, price_text) : STATUS_USAGE;
	free(trial);
	return status;
}
