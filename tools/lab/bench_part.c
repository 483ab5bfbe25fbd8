/* A model on a backend, its prompts, and a part from the command line to the exit status. */
#include <stdlib.h>
#include <string.h>

#include "kernels/synth_value.h"
#include "tools/lab/bench.h"
#include "tools/program/interrupt.h"
#include "tools/program/prompt_list.h"

/* ---- a model on a backend ----------------------------------------------------------------- */

/* OPTIONS_GO_ON, or the exit status with the message printed. Close in any case. */
static int open_bench(struct bench_part* part) {
	const struct runtime_wish wish = {.model = part->model};
	struct swiftlet_options options = part->options;
	struct error error = {{0}};
	const double started = seconds_now();
	if (options.draft_bits < 0 && !part->as_run)
		options.draft_bits = 0;
	bench_progress(0, "opening %s", part->model);
	const bool good = runtime_open_engine(&part->bench, &wish, &options, &error);
	part->bench.load_seconds = seconds_now() - started;
	if (good)
		return OPTIONS_GO_ON;
	bench_progress_end();
	return complain(STATUS_FAILED, "%s", error.message);
}

/* What was measured on. */
static void describe(const struct runtime* bench, cJSON* out) {
	const struct backend* backend = bench->engine->backend;
	cJSON_AddStringToObject(out, "model", swiftlet_model_name(bench->model));
	cJSON_AddStringToObject(out, "backend", swiftlet_engine_name(bench->engine));
	cJSON_AddNumberToObject(out, "threads", backend->threads(backend));
	cJSON_AddNumberToObject(out, "parameters", bench->model->parameters);
	cJSON_AddNumberToObject(out, "load_seconds", bench->load_seconds);
}

/* ---- prompts ------------------------------------------------------------------------------ */

static bool is_made_up(const struct runtime* bench) {
	return bench->model->weights.embedding.synth.kind != SYNTH_NONE;
}

bool bench_prompt(const struct runtime* bench, uint64_t index, int32_t* id, int n, struct error* error) {
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
	const char* text = usual_prompt[index % USUAL_PROMPTS];
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

/* ---- a part --------------------------------------------------------------------------------- */

static int measure_and_tell(struct bench_part* part) {
	struct error error = {{0}};
	cJSON* const out = cJSON_CreateObject();
	interrupt_watch();
	describe(&part->bench, out);
	const bool good = part->measure(part, out, &error);
	bench_progress_end();
	if (!good) {
		cJSON_Delete(out);
		return complain(STATUS_FAILED, "%s", error.message);
	}
	const double differing = cJSON_GetNumberValue(cJSON_GetObjectItem(out, "tokens_differing"));
	if (part->runs)
		cJSON_AddItemToArray(part->runs, out);
	const int status = part->runs ? STATUS_DONE : bench_tell(out, part->json);
	return status == STATUS_DONE && differing > 0
	           ? complain(STATUS_FAILED, "%.0f tokens differ from plain decoding's", differing)
	           : status;
}

int bench_part_run(struct bench_part* part) {
	int status = open_bench(part);
	if (status == OPTIONS_GO_ON)
		status = measure_and_tell(part);
	return runtime_close(&part->bench, status);
}

int bench_part_main(struct bench_part* part, struct command_line* line, int argc, char** argv) {
	line->session = &part->options;
	line->max_words = 1;
	int status = options_parse_model(line, argc, argv, &part->model);
	if (status == OPTIONS_GO_ON && part->prepare)
		status = part->prepare(part);
	return status == OPTIONS_GO_ON ? bench_part_run(part) : status;
}
