/* swiftlet list: the models that have a name on this machine. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "core/model/places.h"
#include "tools/program/command.h"
#include "tools/program/options.h"
#include "tools/program/tables.h"

static void add_place(void* list, const struct model_place* place) {
	cJSON* const one = cJSON_CreateObject();
	cJSON_AddStringToObject(one, "name", place->name);
	cJSON_AddNumberToObject(one, "bytes", (double)place->bytes);
	cJSON_AddStringToObject(one, "path", place->path);
	cJSON_AddItemToArray(list, one);
}

int command_list(int argc, char** argv) {
	bool json = false;
	const struct command_option option[] = {
	    FLAG("json", "print one JSON array instead of a table", &json),
	};
	struct command_line line = {
	    .name = "list",
	    .usage = "[--json]",
	    .about =
	        "Lists the models that have a name on this machine: those that `swiftlet pull` has fetched,\n"
	        "and those in the Hugging Face cache. Every command takes such a name as its MODEL.",
	    .examples = "  swiftlet list\n  swiftlet run smollm2-135m \"Why is the sky blue?\"",
	    OPTIONS(option),
	};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	cJSON* const list = cJSON_CreateArray();
	places_each(add_place, list);
	if (json || cJSON_GetArraySize(list) > 0)
		return report_print(list, json);
	cJSON_Delete(list);
	puts("No model has a name here yet. These commands fetch a model, which then has a name:\n\n"
	     "    swiftlet pull smollm2-135m      a small one, 93 MB\n"
	     "    hf download ORG/NAME            any of Hugging Face (pip install huggingface_hub)\n\n"
	     "A GGUF file needs no name: give its path in place of MODEL.");
	return output_written(STATUS_DONE);
}
