/* swiftlet list: the models that have a name on this machine. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/model/places.h"
#include "tools/program/command.h"
#include "tools/program/options.h"

static void add_place(void* list, const struct place* place) {
	cJSON* const one = cJSON_CreateObject();
	cJSON_AddStringToObject(one, "name", place->name);
	cJSON_AddNumberToObject(one, "bytes", (double)place->bytes);
	cJSON_AddStringToObject(one, "path", place->path);
	cJSON_AddItemToArray(list, one);
}

static const char* text_of(const cJSON* place, const char* name) {
	return cJSON_GetStringValue(cJSON_GetObjectItem(place, name));
}

static void print_places(const cJSON* list) {
	const cJSON* place;
	printf("%-40s  %10s  %s\n", "NAME", "SIZE", "PATH");
	cJSON_ArrayForEach (place, list)
		printf("%-40s  %7.1f MB  %s\n", text_of(place, "name"),
		       cJSON_GetNumberValue(cJSON_GetObjectItem(place, "bytes")) / 1e6, text_of(place, "path"));
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
	char* const text = json ? cJSON_PrintUnformatted(list) : NULL;
	if (json)
		puts(text ? text : "[]");
	else if (cJSON_GetArraySize(list) > 0)
		print_places(list);
	else
		puts("No model has a name here yet. swiftlet pull smollm2-135m fetches one of 93 MB, and\n"
		     "hf download ORG/NAME one from Hugging Face; GGUF files are used by their path.");
	free(text);
	cJSON_Delete(list);
	return output_written(STATUS_DONE);
}
