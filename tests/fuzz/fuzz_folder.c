/* A model's folder: it opens, or there is a message why not; what opened has a tokenizer that encodes.
 *
 * The input is a JSON object whose members are the folder's files. A string is a file as it is. Anything else
 * is written as JSON, or where the name ends in .safetensors as the header of a file whose data are zeros. So
 * the files are changed together, and each as a document. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "tests/fuzz/mutate_json.h"

enum { MOST_DATA = 1 << 18 };

static char folder[64];

static void remove_folder(void) {
	DIR* const open = opendir(folder);
	for (struct dirent* entry; open && (entry = readdir(open));)
		unlinkat(dirfd(open), entry->d_name, 0);
	if (open)
		closedir(open);
	rmdir(folder);
}

static void make_folder(void) {
	if (!folder[0]) {
		snprintf(folder, sizeof folder, "/tmp/swiftlet-fuzz-%d", (int)getpid());
		atexit(remove_folder);
	}
	remove_folder();
	if (mkdir(folder, 0700) != 0)
		abort();
}

/* The end of a header's last tensor. */
static size_t data_size(const cJSON* header) {
	double most = 0;
	const cJSON* tensor;
	cJSON_ArrayForEach (tensor, header) {
		const cJSON* const end =
		    cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets"), 1);
		most = cJSON_IsNumber(end) && end->valuedouble > most ? end->valuedouble : most;
	}
	return most < MOST_DATA ? (size_t)most : MOST_DATA;
}

static void write_file(const cJSON* content) {
	static const char zeros[MOST_DATA];
	const char* const name = content->string;
	const size_t n = name ? strlen(name) : 0, ending = strlen(".safetensors");
	char path[320];
	if (n == 0 || n > 200 || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return;
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE* const file = fopen(path, "w");
	if (!file)
		return;
	if (cJSON_IsString(content))
		fputs(content->valuestring, file);
	else {
		char* const text = cJSON_PrintUnformatted(content);
		const uint64_t size = text ? strlen(text) : 0;
		const bool weights = n > ending && strcmp(name + n - ending, ".safetensors") == 0;
		if (weights)
			fwrite(&size, sizeof size, 1, file);
		fwrite(text ? text : "", 1, size, file);
		if (weights)
			fwrite(zeros, 1, data_size(content), file);
		cJSON_free(text);
	}
	fclose(file);
}

static void use(const struct model* model) {
	static const char text[] = "Hello <s>\xff 12\n\xe4\xb8\xad";
	struct token_list ids = {0};
	if (!model->tokenizer || !tokenizer_encode(model->tokenizer, text, sizeof text - 1, 3, &ids))
		abort();
	for (int i = 0; i < ids.n; i++)
		if (ids.id[i] < 0 || ids.id[i] >= model->weights.shape.vocab)
			abort();
	for (int i = 0; i < model->n_end_tokens; i++)
		if (model->end_token[i] < 0 || model->end_token[i] >= model->weights.shape.vocab)
			abort();
	token_list_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	char* const text = calloc(size + 1, 1);
	memcpy(text, data, size);
	cJSON* const files = cJSON_Parse(text);
	const cJSON* content;
	free(text);
	if (!cJSON_IsObject(files)) {
		cJSON_Delete(files);
		return 0;
	}
	make_folder();
	cJSON_ArrayForEach (content, files)
		write_file(content);
	cJSON_Delete(files);
	for (int vocabulary_only = 0; vocabulary_only < 2; vocabulary_only++) {
		struct error error = {""};
		struct model* const model =
		    model_open(folder, &(struct model_options){.vocabulary_only = vocabulary_only}, &error);
		if (model)
			use(model);
		else if (!error.message[0])
			abort();
		model_close(model);
	}
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_json(data, size, most, 0, seed);
}
