/* The places of models on this machine: `builtin`, what `swiftlet pull` has fetched, the Hugging Face cache.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/model/model.h"

enum { PATH_SIZE = sizeof((struct model*)0)->path, PLACE_NAME = 256 };

struct model_place {
	char name[PLACE_NAME]; /* as MODEL of the command line */
	char path[PATH_SIZE];
	int64_t bytes; /* of its weights */
};

bool is_folder(const char* path);
/* The first place of `builtin` that has a config.json. False with the error set. */
bool find_builtin(char path[PATH_SIZE], struct error*);
/* The script that fetches models, tools/models. False with the error set. */
bool find_fetcher(char path[PATH_SIZE], struct error*);
/* NAME that `swiftlet pull` has fetched, or org/name in the Hugging Face cache; org/name@REVISION is a
 * branch, a tag or a commit. False with the error set. */
bool find_by_name(char path[PATH_SIZE], const char* spec, struct error*);
/* A folder without config.json that holds one GGUF model becomes its file's path, as the hub stores GGUF
 * models. False for other folders. */
bool only_gguf(char path[PATH_SIZE]);
/* Lists every model that has a name, place by place, sorted by name. */
void places_each(void (*visit)(void* user, const struct model_place*), void* user);
