/* What MODEL of the command line means: content decides, then names. */
#include "core/model/model.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/model/bind.h"
#include "core/text/tokenizer.h"

enum { PATH_SIZE = sizeof((struct model*)0)->path };

/* ---- where things lie --------------------------------------------------------------------- */

static bool is_folder(const char* path) {
	struct stat status;
	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The first of the places where `builtin` may be that has a config.json. */
static bool find_builtin(char path[PATH_SIZE], struct error* error) {
	char program[PATH_SIZE], probe[PATH_SIZE + 16];
	const char* data = getenv("SWIFTLET_DATA");
	const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	program[n > 0 ? n : 0] = '\0';
	char* slash = strrchr(program, '/');
	if (slash)
		*slash = '\0';
	const char* const beside = slash ? program : NULL;
	const char* const places[][2] = {{data && *data ? data : NULL, "builtin"},
	                                 {beside, "builtin"},
	                                 {beside, "../builtin"},
	                                 {beside, "../share/swiftlet/builtin"},
	                                 {SWIFTLET_INSTALLED_DATA, "builtin"}};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (!places[i][0] || snprintf(path, PATH_SIZE, "%s/%s", places[i][0], places[i][1]) >= PATH_SIZE)
			continue;
		snprintf(probe, sizeof probe, "%s/config.json", path);
		if (access(probe, R_OK) == 0)
			return true;
	}
	return error_set(error,
	                 "the built-in model was found neither beside %.200s nor in %s/builtin; set "
	                 "SWIFTLET_DATA to the folder that holds `builtin`",
	                 program, SWIFTLET_INSTALLED_DATA);
}

/* "org/name" as the Hugging Face hub allows it: two parts of letters, digits, '-', '_' and '.'. */
static bool is_hub_name(const char* spec) {
	int slashes = 0;
	for (const char* c = spec; *c; c++) {
		if (*c == '/')
			slashes++;
		else if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
			return false;
	}
	const char* slash = strchr(spec, '/');
	return slashes == 1 && slash > spec && slash[1] && spec[0] != '.' && slash[1] != '.';
}

/* A folder as huggingface_hub reads it from a variable: ~ at its beginning is the home folder, $NAME a
 * variable. */
static bool expand(const char* text, char out[PATH_SIZE]) {
	size_t n = 0;
	for (const char* c = text; *c;) {
		char name[64];
		const size_t size = strspn(c + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
		const bool home = c == text && *c == '~' && (!c[1] || c[1] == '/');
		const bool variable = *c == '$' && size > 0 && size < sizeof name;
		snprintf(name, sizeof name, "%.*s", variable ? (int)size : 0, c + 1);
		const char* const value = home ? getenv("HOME") : variable ? getenv(name) : NULL;
		const int written = value ? snprintf(out + n, PATH_SIZE - n, "%s", value)
		                          : snprintf(out + n, PATH_SIZE - n, "%c", *c);
		if (written < 0 || (n += (size_t)written) >= PATH_SIZE)
			return false;
		c += value && variable ? 1 + size : 1;
	}
	return true;
}

static bool hub_folder(char out[PATH_SIZE], const char* spec) {
	static const struct {
		const char *variable, *below;
	} places[] = {{"HF_HUB_CACHE", ""},
	              {"HUGGINGFACE_HUB_CACHE", ""}, /* its older name, which is still read */
	              {"HF_HOME", "/hub"},
	              {"XDG_CACHE_HOME", "/huggingface/hub"},
	              {"HOME", "/.cache/huggingface/hub"}};
	const char* slash = strchr(spec, '/');
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		const char* const said = getenv(places[i].variable);
		char base[PATH_SIZE] = "";
		if (said && *said)
			return expand(said, base) &&
			       snprintf(out, PATH_SIZE, "%s%s/models--%.*s--%s", base, places[i].below,
			                (int)(slash - spec), spec, slash + 1) < PATH_SIZE;
	}
	return false;
}

/* The commit that refs/main names, or the only snapshot there is. */
static bool hub_commit(const char* folder, char commit[128]) {
	char path[PATH_SIZE + 16];
	snprintf(path, sizeof path, "%s/refs/main", folder);
	FILE* ref = fopen(path, "re");
	commit[0] = '\0';
	if (ref) {
		if (fgets(commit, 128, ref))
			commit[strcspn(commit, " \r\n")] = '\0';
		fclose(ref);
		return commit[0] && !strchr(commit, '/');
	}
	snprintf(path, sizeof path, "%s/snapshots", folder);
	DIR* list = opendir(path);
	int n = 0;
	for (struct dirent* entry; list && (entry = readdir(list));)
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < 128 && ++n == 1)
			snprintf(commit, 128, "%s", entry->d_name);
	if (list)
		closedir(list);
	return n == 1;
}

static bool find_in_hub(char path[PATH_SIZE], const char* spec, struct error* error) {
	char folder[PATH_SIZE], commit[128];
	if (hub_folder(folder, spec) && hub_commit(folder, commit)) {
		const int n = snprintf(path, PATH_SIZE, "%s/snapshots/%s", folder, commit);
		if (n > 0 && n < PATH_SIZE && is_folder(path))
			return true;
	}
	return error_set(error,
	                 "%s is neither a file or folder here nor in the local Hugging Face cache; nothing is "
	                 "downloaded by itself, this would: hf download %s (older: huggingface-cli download %s)",
	                 spec, spec, spec);
}

/* A folder without config.json that holds one GGUF file is that file: so the hub keeps GGUF models. */
static bool only_gguf(char path[PATH_SIZE]) {
	char probe[PATH_SIZE + 16], found[PATH_SIZE] = "";
	snprintf(probe, sizeof probe, "%s/config.json", path);
	if (access(probe, F_OK) == 0)
		return false;
	DIR* list = opendir(path);
	int n = 0;
	for (struct dirent* entry; list && (entry = readdir(list));) {
		const size_t length = strlen(entry->d_name);
		if (length > 5 && strcmp(entry->d_name + length - 5, ".gguf") == 0 && ++n == 1 &&
		    snprintf(found, sizeof found, "%.700s/%s", path, entry->d_name) >= (int)sizeof found)
			n = 2;
	}
	if (list)
		closedir(list);
	if (n != 1)
		return false;
	snprintf(path, PATH_SIZE, "%s", found);
	return true;
}

/* ---- opening ------------------------------------------------------------------------------ */

static bool open_file(struct model* model, const struct model_options* options, struct error* error) {
	static const char pickle[] =
	    "a PyTorch pickle, which is not read; convert its model once with transformers' save_pretrained, "
	    "which writes safetensors";
	static const struct {
		size_t at, n;
		const char *bytes, *what;
	} known[] = {{0, 1, "\x80", pickle},
	             {0, 4, "PK\3\4", pickle},
	             {6, 3, "\0\0{", "a safetensors file alone; give the folder that has its config.json too"},
	             {0, 4, "FUGG", "a GGUF file with its bytes in big-endian order, which is not read"}};
	struct mapping file;
	if (!mapping_open(&file, model->path, error))
		return false;
	const char* what = "not a model: it begins neither as GGUF nor as a folder's config.json would";
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (file.size >= known[i].at + 4 && memcmp(file.data + known[i].at, known[i].bytes, known[i].n) == 0)
			what = known[i].what;
	const bool gguf = file.size >= 4 && memcmp(file.data, "GGUF", 4) == 0;
	mapping_close(&file);
	return gguf ? model_open_gguf(model, model->path, options, error)
	            : error_set(error, "%.200s: %s", model->path, what);
}

static bool set_path(struct model* model, const char* path, struct error* error) {
	const size_t n = strlen(path);
	if (n >= sizeof model->path)
		return error_set(error, "%.200s…: the path is too long", path);
	memcpy(model->path, path, n + 1);
	return true;
}

/* Fills name, path and what is behind them. */
static bool open_spec(struct model* model, const char* spec, const struct model_options* options,
                      struct error* error) {
	char* const path = model->path;
	snprintf(model->name, sizeof model->name, "%s", spec);
	if (!opened_new(model, error))
		return false;
	if (strncmp(spec, "synth:", 6) == 0)
		return set_path(model, spec, error) && model_open_synth(model, spec + 6, options, error);
	struct stat status;
	const bool here = stat(spec, &status) == 0;
	if (strcmp(spec, "builtin") == 0) {
		if (!find_builtin(path, error))
			return false;
	} else if (here || !is_hub_name(spec)) {
		if (!here)
			return error_set(error, "%.300s: %s", spec, strerror(errno));
		if (!set_path(model, spec, error))
			return false;
		for (size_t end = strlen(path); end > 1 && path[end - 1] == '/';)
			path[--end] = '\0';
		const char* slash = strrchr(path, '/');
		snprintf(model->name, sizeof model->name, "%s", slash && slash[1] ? slash + 1 : path);
	} else if (!find_in_hub(path, spec, error))
		return false;
	return is_folder(path) && !only_gguf(path) ? model_open_folder(model, path, options, error)
	                                           : open_file(model, options, error);
}

struct model* model_open(const char* spec, const struct model_options* options, struct error* error) {
	const struct model_options none = {0};
	struct model* model = calloc(1, sizeof *model);
	if (!model) {
		error_set(error, "out of memory");
		return NULL;
	}
	if (spec && *spec ? open_spec(model, spec, options ? options : &none, error)
	                  : error_set(error, "the model's name is empty")) {
		model_fingerprint(model);
		return model;
	}
	model_close(model);
	return NULL;
}

void model_close(struct model* model) {
	if (!model)
		return;
	model_free_owned(model);
	tokenizer_free(model->tokenizer);
	model_free_templates(model);
	free(model);
}

bool model_is_end(const struct model* model, int32_t token) {
	for (int i = 0; i < model->n_end_tokens; i++)
		if (model->end_token[i] == token)
			return true;
	return false;
}
