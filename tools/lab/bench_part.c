/* Opens a model on a backend with its prompts, and runs a part from the command line to the exit status. */
#include <stdlib.h>
#include <string.h>

#include "kernels/synth_value.h"
#include "tools/lab/bench.h"
#include "tools/program/interrupt.h"

/* ---- a model on a backend ----------------------------------------------------------------- */

/* Describes the model and machine of a measurement. */
static void describe_model(const struct runtime* bench, cJSON* out) {
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
		/* of a model with two halves: of the first half */
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

int bench_context(const struct runtime* bench) { return options_context(&bench->options, bench->model); }

bool bench_prompts(const struct runtime* bench, struct prompt_list* list, const char* input, int most_tokens,
                   struct error* error) {
	if (!prompt_list_read(list, bench->model, input, error))
		return false;
	prompt_list_fit(list, bench_context(bench));
	for (int i = 0; i < list->n; i++)
		list->prompt[i].max_tokens = least(list->prompt[i].max_tokens, most_tokens);
	return true;
}

/* ---- a part --------------------------------------------------------------------------------- */

static bool open_and_measure(struct bench_part* part, cJSON* out, struct error* error) {
	struct runtime* const bench = &part->bench;
	if (bench->options.draft_weights.bits < 0 && !part->as_run)
		bench->options.draft_weights.bits = 0;
	progress_show(0, "opening %s", bench->wish.model);
	if (!runtime_open_engine(bench, error))
		return false;
	interrupt_watch();
	describe_model(bench, out);
	return part->measure(part, out, error);
}

int bench_part_run(struct bench_part* part) {
	struct error error = {{0}};
	cJSON* const out = cJSON_CreateObject();
	const bool good = open_and_measure(part, out, &error);
	progress_end();
	if (!good) {
		cJSON_Delete(out);
		return runtime_close(&part->bench, complain(STATUS_FAILED, "%s", error.message));
	}
	const double differing = cJSON_GetNumberValue(cJSON_GetObjectItem(out, "tokens_differing"));
	if (part->runs)
		cJSON_AddItemToArray(part->runs, out);
	int status = part->runs ? STATUS_DONE : report_print(out, part->json);
	if (status == STATUS_DONE && differing > 0)
		status = complain(STATUS_FAILED, "%.0f tokens differ from plain decoding's", differing);
	return runtime_close(&part->bench, status);
}

int bench_part_main(struct bench_part* part, struct command_line* line, int argc, char** argv) {
	line->session = &part->bench.options;
	line->max_words = 1;
	int status = options_parse_model(line, argc, argv, &part->bench.wish.model);
	if (status == OPTIONS_GO_ON && part->prepare)
		status = part->prepare(part);
	return status == OPTIONS_GO_ON ? bench_part_run(part) : status;
}
