/* `swiftlet bench bridge`: what bridges make of spans that are left out (tools/program/bridge_trial.h), from
 * prompts of a file to learn from and others that judge. */
#include <stdlib.h>
#include <string.h>

#include "tools/lab/bench.h"
#include "tools/lab/prices.h"
#include "tools/program/bridge_trial.h"
#include "tools/program/runtime.h"

static void progress(double share, const char* what) { bench_progress(share, "%s", what); }

struct bridge_bench {
	struct bench_part part;
	struct bridge_trial trial;
	const char *judge, *learn, *spans, *prices;
};

static int prepare(struct bench_part* part) {
	struct bridge_bench* b = (struct bridge_bench*)part;
	struct error error = {{0}};
	struct price_list prices;
	if (!prices_read(&prices, b->prices, &error))
		return complain(STATUS_USAGE, "%s", error.message);
	memcpy(b->trial.verify, prices.verify, sizeof b->trial.verify);
	return OPTIONS_GO_ON;
}

static bool measure(struct bench_part* part, cJSON* out, struct error* error) {
	struct bridge_bench* b = (struct bridge_bench*)part;
	struct bridge_trial* trial = &b->trial;
	swiftlet_model* model = part->bench.model;
	trial->maker = (struct text_maker){part->bench.engine, options_context(&part->options, model), progress};
	const bool good = prompt_list_read(&trial->judge, model, b->judge, error) &&
	                  (b->learn ? prompt_list_read(&trial->learn, model, b->learn, error)
	                            : bridge_trial_split(trial, error)) &&
	                  bridge_trial_run(trial, b->spans, error) &&
	                  (bridge_trial_json(trial, out) || error_set(error, "out of memory for the figures"));
	bridge_trial_close(trial);
	return good;
}

int bench_bridge_main(int argc, char** argv) {
	struct bridge_bench* b = calloc(1, sizeof *b);
	if (!b)
		return complain(STATUS_FAILED, "out of memory");
	b->part.prepare = prepare;
	b->part.measure = measure;
	b->trial.tokens = 8000;
	b->prices = "slope=0.05";
	const struct option option[] = {
	    BENCH_OPTIONS(b->part),
	    OPTION_OF_TEXT("input", 'i', "FILE", "prompts, as `swiftlet stream` takes them", &b->judge),
	    OPTION_OF_TEXT("learn", 0, "FILE", "prompts to learn from (every other of the prompts)", &b->learn),
	    OPTION_OF_TEXT("spans", 0, "LIST", "blocks that are left out, 9-16,4-18 (those of least influence)",
	                   &b->spans),
	    OPTION_OF_COUNT("tokens", 0, "N", "tokens to learn from (8000)", &b->trial.tokens, 1, 1 << 30),
	    OPTION_OF_TEXT("prices", 0, "LIST|FILE", "of rows, as bench replay takes them (slope=0.05)",
	                   &b->prices),
	};
	struct command_line line = {
	    .name = "bench bridge",
	    .usage = "[MODEL|-m MODEL] [-i FILE] [--learn FILE] [--spans LIST] [--tokens N] [--json] [options]",
	    .about = "Counts how often a draft step is right that leaves a span of blocks out, bare and with a\n"
	             "bridge in its place that was fitted by least squares to states of full passes.",
	    .examples = "  swiftlet bench bridge -m model.gguf -i tools/chat.jsonl --tokens 2000",
	    .option = option,
	    .n_options = sizeof option / sizeof *option,
	};
	const int status = bench_part_main(&b->part, &line, argc, argv);
	free(b);
	return status;
}
