/* Prompts as ids. */
#include "tools/program/prompt_list.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/model.h"
#include "streams/jsonl.h"

const char* const usual_prompt[USUAL_PROMPTS] = {
    "Once upon a time there was a small bird that could not sing.",
    "def read_lines(path):\n    \"\"\"Returns the lines of a file without their ends.\"\"\"\n",
    "Question: A baker sells 14 loaves in the morning and twice as many in the afternoon. How many in "
    "all?\nAnswer:",
    "German: Zwei Kinder spielen am Strand mit einem roten Ball.\nEnglish:",
    "The three most important things to know about the history of the printing press are",
    "Dialogue:\nA: Are you coming on Friday?\nB: I have to work until six, but I can come after "
    "that.\nSummary:",
};

/* Takes the ids over. */
static bool add_prompt(struct prompt_list* list, const char* task, const struct token_list* tokens,
                       int max_tokens, struct error* error) {
	char* const label = task ? strdup(task) : NULL;
	list->prompt[list->n++] = (struct prompt){label, tokens->id, tokens->n, max_tokens};
	return !task || label || error_set(error, "out of memory");
}

static bool usual_prompts(struct prompt_list* list, const swiftlet_model* model, struct error* error) {
	for (int i = 0; i < USUAL_PROMPTS; i++) {
		struct token_list tokens = {0};
		const bool good =
		    prompt_tokens(model, usual_prompt[i], strlen(usual_prompt[i]), false, &tokens, error);
		if (!add_prompt(list, NULL, &tokens, 128, error) || !good)
			return false;
	}
	return true;
}

/* The last message's text, which is the prompt for a model without a chat template. */
static bool tokens_of(const swiftlet_model* model, const struct instance* instance, struct token_list* tokens,
                      struct error* error) {
	if (instance->prompt || model_chat_template(model, false))
		return instance_tokens(model, instance, false, tokens, error);
	cJSON* messages = cJSON_Parse(instance->chat.messages);
	const cJSON* last = cJSON_GetArrayItem(messages, cJSON_GetArraySize(messages) - 1);
	const char* text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(last, "content"));
	const bool good = text ? prompt_tokens(model, text, strlen(text), false, tokens, error)
	                       : error_set(error, "the last message has no text");
	cJSON_Delete(messages);
	return good;
}

static bool read_file(struct prompt_list* list, const swiftlet_model* model, FILE* file, const char* name,
                      struct error* error) {
	struct jsonl_reader reader = {.file = file};
	struct instance instance;
	struct error why = {{0}};
	bool good = true;
	while (good && list->n < MOST_PROMPTS) {
		const enum jsonl_status status = jsonl_next(&reader, &instance, &why);
		if (status == JSONL_END)
			break;
		struct token_list tokens = {0};
		good = (status == JSONL_INSTANCE && tokens_of(model, &instance, &tokens, &why)) ||
		       error_set(error, "%s, line %ld: %.300s", name, instance.line, why.message);
		good = add_prompt(list, instance.task, &tokens, instance.max_tokens, error) && good;
		instance_free(&instance);
	}
	jsonl_free(&reader);
	return good && (list->n > 0 || error_set(error, "%s holds no prompts", name));
}

bool prompt_list_read(struct prompt_list* list, const swiftlet_model* model, const char* input,
                      struct error* error) {
	if (!input)
		return usual_prompts(list, model, error);
	const bool standard = strcmp(input, "-") == 0;
	FILE* const file = standard ? stdin : fopen(input, "rb");
	if (!file)
		return error_set(error, "%s: %s", input, strerror(errno));
	const bool good = read_file(list, model, file, input, error);
	if (!standard)
		fclose(file);
	return good;
}

void prompt_list_fit(struct prompt_list* list, int context) {
	int kept = 0;
	for (int i = 0; i < list->n; i++) {
		if (list->prompt[i].n < context) {
			list->prompt[kept++] = list->prompt[i];
			continue;
		}
		free(list->prompt[i].id);
		free(list->prompt[i].task);
	}
	if (kept < list->n)
		fprintf(stderr, "swiftlet: %d of %d prompts are left out: the context holds %d tokens\n",
		        list->n - kept, list->n, context);
	list->n = kept;
}

void prompt_list_free(struct prompt_list* list) {
	for (int i = 0; i < list->n; i++) {
		free(list->prompt[i].id);
		free(list->prompt[i].task);
	}
	list->n = 0;
}
