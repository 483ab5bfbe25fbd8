/* Finding models by their names. */
#include "core/model/places.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool is_folder(const char* path) {
	struct stat status;
	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Finds a file or folder `name` that ships with the program: the first of the possible places in which
 * `inside` ("": the place itself) can be read. `program` is set to the program's folder. */
static bool find_shipped(char path[PATH_SIZE], char program[PATH_SIZE], const char* name,
                         const char* inside) {
	char probe[PATH_SIZE + 16];
	const char* data = getenv("SWIFTLET_DATA");
	const ssize_t n = readlink("/proc/self/exe", program, PATH_SIZE - 1);
	program[n > 0 ? n : 0] = '\0';
	char* slash = strrchr(program, '/');
	if (slash)
		*slash = '\0';
	const char* const beside = slash ? program : NULL;
	const char* const places[][2] = {{data && *data ? data : NULL, ""},
	                                 {beside, ""},
	                                 {beside, "../"},
	                                 {beside, "../share/swiftlet/"},
	                                 {SWIFTLET_INSTALLED_DATA, ""}};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (!places[i][0] ||
		    snprintf(path, PATH_SIZE, "%s/%s%s", places[i][0], places[i][1], name) >= PATH_SIZE)
			continue;
		snprintf(probe, sizeof probe, "%s%s", path, inside);
		if (access(probe, R_OK) == 0 && (*inside || !is_folder(path)))
			return true;
	}
	return false;
}

bool find_fetcher(char path[PATH_SIZE], struct error* error) {
	char program[PATH_SIZE];
	return find_shipped(path, program, "fetch-models", "") ||
	       error_set(error, "the script fetch-models was found neither beside %.200s nor in %s", program,
	                 SWIFTLET_INSTALLED_DATA);
}

bool find_builtin(char path[PATH_SIZE], struct error* error) {
	char program[PATH_SIZE];
	if (find_shipped(path, program, "builtin", "/config.json"))
		return true;
	return error_set(error,
	                 "the built-in model was found neither beside %.200s nor in %s/builtin; set "
	                 "SWIFTLET_DATA to the folder that holds `builtin`",
	                 program, SWIFTLET_INSTALLED_DATA);
}

/* Bytes of "org/name" in "org/name@revision". */
static int name_size(const char* spec) { return (int)strcspn(spec, "@"); }

/* Accepts "org/name" and "org/name@revision" as the Hugging Face hub does: letters, digits, '-', '_' and '.',
 * and '/' in a revision. */
static bool is_hub_name(const char* spec) {
	const int n = name_size(spec);
	int slashes = 0;
	for (int i = 0; spec[i]; i++) {
		if (spec[i] == '/' && i < n)
			slashes++;
		else if (!isalnum((unsigned char)spec[i]) && !strchr(i < n ? "-_." : i > n ? "-_./" : "@", spec[i]))
			return false;
	}
	const char* slash = strchr(spec, '/');
	return slashes == 1 && slash > spec && slash + 1 < spec + n && spec[0] != '.' && slash[1] != '.' &&
	       !strstr(spec, "..") && (!spec[n] || isalnum((unsigned char)spec[n + 1]));
}

/* Reads a folder from a variable as huggingface_hub does: a leading ~ is the home folder, $NAME a
 * variable. */
static bool expand_path(const char* text, char out[PATH_SIZE]) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t n = 0;
	for (const char* c = text; *c;) {
		char name[64];
		const size_t size = strspn(c + 1, letters);
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

/* The folder with the hub's models. */
static bool hub_root(char out[PATH_SIZE]) {
	static const struct {
		const char *variable, *below;
	} places[] = {{"HF_HUB_CACHE", ""},
	              {"HUGGINGFACE_HUB_CACHE", ""}, /* its older name, which is still read */
	              {"HF_HOME", "/hub"},
	              {"XDG_CACHE_HOME", "/huggingface/hub"},
	              {"HOME", "/.cache/huggingface/hub"}};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		const char* const value = getenv(places[i].variable);
		char base[PATH_SIZE] = "";
		if (value && *value)
			return expand_path(value, base) &&
			       snprintf(out, PATH_SIZE, "%.1000s%s", base, places[i].below) < PATH_SIZE;
	}
	return false;
}

/* Early models, such as gpt2, have a name without an organisation. */
static bool hub_folder(char out[PATH_SIZE], const char* spec) {
	char root[PATH_SIZE];
	const int n = name_size(spec), org = (int)strcspn(spec, "/@");
	return hub_root(root) &&
	       snprintf(out, PATH_SIZE, "%.600s/models--%.*s%s%.*s", root, org, spec, org < n ? "--" : "",
	                org < n ? n - org - 1 : 0, spec + org + (org < n)) < PATH_SIZE;
}

/* The commit that a file of refs/ names. */
static bool read_ref(const char* folder, const char* ref, char commit[128]) {
	char path[2 * PATH_SIZE];
	snprintf(path, sizeof path, "%s/refs/%s", folder, ref);
	FILE* file = fopen(path, "re");
	commit[0] = '\0';
	if (!file)
		return false;
	if (fgets(commit, 128, file))
		commit[strcspn(commit, " \r\n")] = '\0';
	fclose(file);
	return commit[0] && !strchr(commit, '/');
}

/* The only snapshot whose name begins with `start`. */
static bool find_snapshot(const char* folder, const char* start, char commit[128]) {
	char path[PATH_SIZE + 16];
	snprintf(path, sizeof path, "%s/snapshots", folder);
	DIR* list = opendir(path);
	int n = 0;
	for (struct dirent* entry; list && (entry = readdir(list));)
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < 128 &&
		    strncmp(entry->d_name, start, strlen(start)) == 0 && ++n == 1)
			snprintf(commit, 128, "%s", entry->d_name);
	if (list)
		closedir(list);
	return n == 1;
}

/* The commit of a branch, a tag, or the beginning of a commit's own name. Without a revision it is main's, or
 * the only one there is. */
static bool hub_commit(const char* folder, const char* revision, char commit[128]) {
	if (!revision[0])
		return read_ref(folder, "main", commit) || find_snapshot(folder, "", commit);
	return read_ref(folder, revision, commit) || find_snapshot(folder, revision, commit);
}

static bool find_in_hub(char path[PATH_SIZE], const char* spec) {
	char folder[PATH_SIZE], commit[128];
	const char* const at = strchr(spec, '@');
	if (!hub_folder(folder, spec) || !hub_commit(folder, at ? at + 1 : "", commit))
		return false;
	const int n = snprintf(path, PATH_SIZE, "%s/snapshots/%s", folder, commit);
	return n > 0 && n < PATH_SIZE && is_folder(path);
}

/* The folder into which swiftlet pull (tools/models) fetches models. */
static bool fetched_folder(char out[PATH_SIZE]) {
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	const bool own = cache && *cache;
	return (own || (home && *home)) && snprintf(out, PATH_SIZE, "%s%s/swiftlet/models", own ? cache : home,
	                                            own ? "" : "/.cache") < PATH_SIZE;
}

static bool find_fetched(char path[PATH_SIZE], const char* name) {
	char folder[PATH_SIZE];
	return !strchr(name, '/') && fetched_folder(folder) &&
	       snprintf(path, PATH_SIZE, "%.700s/%.200s.gguf", folder, name) < PATH_SIZE &&
	       access(path, R_OK) == 0;
}

/* ORG/NAME of the address of a model's page at Hugging Face; NULL: it is none. */
static const char* name_in_address(const char* spec) {
	static const char *const scheme[] = {"https://", "http://"}, *const host[] = {"huggingface.co/",
	                                                                              "hf.co/"};
	for (size_t i = 0; i < sizeof scheme / sizeof *scheme; i++)
		if (strncmp(spec, scheme[i], strlen(scheme[i])) == 0) {
			spec += strlen(scheme[i]);
			break;
		}
	for (size_t i = 0; i < sizeof host / sizeof *host; i++)
		if (strncmp(spec, host[i], strlen(host[i])) == 0)
			return spec + strlen(host[i]);
	return NULL;
}

static bool ends_with(const char* name, const char* end) {
	const size_t n = strlen(name), m = strlen(end);
	return n > m && strcmp(name + n - m, end) == 0;
}

static int64_t size_of(const char* path) {
	struct stat status;
	return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}

/* Bytes of a file, or of the weights in a folder. */
static int64_t weight_bytes(const char* path) {
	char file[PATH_SIZE + 300];
	int64_t bytes = 0;
	if (!is_folder(path))
		return size_of(path);
	DIR* list = opendir(path);
	for (struct dirent* entry; list && (entry = readdir(list));) {
		snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
		if (ends_with(entry->d_name, ".safetensors") || ends_with(entry->d_name, ".gguf"))
			bytes += size_of(file);
	}
	if (list)
		closedir(list);
	return bytes;
}

struct near_name {
	const char* wanted;
	char found[PLACE_NAME];
};

/* The letters, in lower case, and digits of a name, without .gguf: people mistype the rest. */
static void reduce_name(const char* name, char out[PLACE_NAME]) {
	const size_t size = ends_with(name, ".gguf") ? strlen(name) - 5 : strlen(name);
	int n = 0;
	for (size_t i = 0; i < size && n < PLACE_NAME - 1; i++)
		if (isalnum((unsigned char)name[i]))
			out[n++] = (char)tolower((unsigned char)name[i]);
	out[n] = 0;
}

static void see_whether_near(void* user, const struct model_place* place) {
	struct near_name* near = user;
	char name[PLACE_NAME], wanted[PLACE_NAME];
	reduce_name(place->name, name);
	reduce_name(near->wanted, wanted);
	if (!near->found[0] && wanted[0] && strstr(name, wanted))
		snprintf(near->found, sizeof near->found, "%s", place->name);
}

/* Explains why a name of the hub leads to no model, and which command fetches it. */
static bool refuse_hub_name(const char* spec, struct error* error) {
	char folder[PATH_SIZE], name[PLACE_NAME];
	const char *const at = strchr(spec, '@'), *const revision = at ? at + 1 : "main";
	snprintf(name, sizeof name, "%.*s", name_size(spec), spec);
	if (hub_folder(folder, spec) && is_folder(folder))
		return error_set(
		    error,
		    "%.200s: the local Hugging Face cache has this model, but not its revision %.100s. "
		    "swiftlet list prints the others; this fetches it: hf download %.200s --revision %.100s",
		    spec, revision, name, revision);
	struct near_name near = {.wanted = name};
	places_each(see_whether_near, &near);
	if (near.found[0])
		return error_set(
		    error,
		    "%.200s: there is no model of this name; did you mean %s? This fetches it, if it is at "
		    "Hugging Face: hf download %.200s",
		    spec, near.found, name);
	return error_set(error,
	                 "%.200s: found no such file or folder, and no such model in the local Hugging Face "
	                 "cache. swiftlet does not download it; this command does: hf download %.200s%s%.100s",
	                 spec, name, at ? " --revision " : "", at ? revision : "");
}

/* A download that was broken off, or a model whose weights have another form. */
static bool check_weights(const char* path, const char* spec, struct error* error) {
	return weight_bytes(path) > 0 ||
	       error_set(
	           error,
	           "%.200s: the local Hugging Face cache has no weights of this model as safetensors or GGUF; "
	           "hf download %.*s fetches what is missing, if the model has them (%.500s)",
	           spec, name_size(spec), spec, path);
}

/* Reports that no model has this name: which one was meant, or where names come from. */
static bool refuse_name(const char* spec, struct error* error) {
	struct near_name near = {.wanted = spec};
	places_each(see_whether_near, &near);
	if (near.found[0])
		return error_set(error, "%.300s: there is no model of this name; did you mean %s?", spec, near.found);
	return error_set(error,
	                 "%.300s: there is no file, folder or model of this name (swiftlet list prints the "
	                 "models on this machine; swiftlet pull fetches some)",
	                 spec);
}

bool find_by_name(char path[PATH_SIZE], const char* spec, struct error* error) {
	const char* const in_address = name_in_address(spec);
	if (in_address && is_hub_name(in_address))
		return error_set(error,
		                 "%.300s is an address; expected a file, a folder or a name. hf download %s fetches "
		                 "the model, whose name is then %s",
		                 spec, in_address, in_address);
	if (is_hub_name(spec))
		return find_in_hub(path, spec) ? check_weights(path, spec, error) : refuse_hub_name(spec, error);
	if (find_fetched(path, spec))
		return true;
	if (strchr(spec, '/'))
		return error_set(error, "%.300s: %s", spec, strerror(ENOENT));
	if (find_in_hub(path, spec))
		return check_weights(path, spec, error);
	return refuse_name(spec, error);
}

/* True for a GGUF file that may be a model's only or first one: neither a later part of a set, "…-00002-of-
 * 00003.gguf", nor the encoder of its images ("mmproj…"), which is not read. */
static bool is_gguf_model(const char* name) {
	const size_t n = strlen(name);
	int no = 1, count = 1;
	if (!ends_with(name, ".gguf") || strncmp(name, "mmproj", 6) == 0)
		return false;
	return n <= 20 || sscanf(name + n - 20, "-%5d-of-%5d.gguf", &no, &count) != 2 || no == 1;
}

/* A folder without config.json that holds one GGUF file stands for this file. The hub stores GGUF models in
 * this way. */
bool only_gguf(char path[PATH_SIZE]) {
	char probe[PATH_SIZE + 16], found[PATH_SIZE] = "";
	snprintf(probe, sizeof probe, "%s/config.json", path);
	if (access(probe, F_OK) == 0)
		return false;
	DIR* list = opendir(path);
	int n = 0;
	for (struct dirent* entry; list && (entry = readdir(list));) {
		if (is_gguf_model(entry->d_name) && ++n == 1 &&
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

/* ---- all there are -------------------------------------------------------------------------- */

/* "models--org--name" to "org/name", and "models--name" to "name". False for other names. */
static bool name_of_hub(const char* folder, char name[PLACE_NAME]) {
	if (strncmp(folder, "models--", 8) != 0)
		return false;
	const char* const org = folder + 8;
	const char* const end = strstr(org, "--");
	return (end ? snprintf(name, PLACE_NAME, "%.*s/%s", (int)(end - org), org, end + 2)
	            : snprintf(name, PLACE_NAME, "%s", org)) < PLACE_NAME;
}

typedef void visit_place(void* user, const struct model_place*);

static void visit_with_weights(struct model_place* p, visit_place* visit, void* user) {
	p->bytes = weight_bytes(p->path);
	if (p->bytes > 0)
		visit(user, p);
}

static void each_fetched(const char* folder, visit_place* visit, void* user) {
	struct dirent** entry;
	const int n = scandir(folder, &entry, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		struct model_place p;
		const char* const file = entry[i]->d_name;
		if (ends_with(file, ".gguf") &&
		    snprintf(p.name, sizeof p.name, "%.*s", (int)strlen(file) - 5, file) < PLACE_NAME &&
		    find_fetched(p.path, p.name))
			visit_with_weights(&p, visit, user);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
}

/* The branches and tags of a model that are other commits than its name alone: "org/name@branch". */
static void each_revision(const char* name, visit_place* visit, void* user) {
	char folder[PATH_SIZE], usual[PATH_SIZE], refs[PATH_SIZE + 8];
	struct dirent** entry;
	struct model_place p;
	if (!hub_folder(folder, name))
		return;
	if (!find_in_hub(usual, name))
		usual[0] = '\0';
	snprintf(refs, sizeof refs, "%s/refs", folder);
	const int n = scandir(refs, &entry, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (snprintf(p.name, sizeof p.name, "%.128s@%.100s", name, entry[i]->d_name) < PLACE_NAME &&
		    entry[i]->d_name[0] != '.' && find_in_hub(p.path, p.name) && strcmp(p.path, usual) != 0)
			visit_with_weights(&p, visit, user);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
}

static void each_in_hub(const char* root, visit_place* visit, void* user) {
	struct dirent** entry;
	const int n = scandir(root, &entry, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		struct model_place p;
		if (name_of_hub(entry[i]->d_name, p.name)) {
			if (find_in_hub(p.path, p.name))
				visit_with_weights(&p, visit, user);
			each_revision(p.name, visit, user);
		}
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
}

void places_each(void (*visit)(void* user, const struct model_place*), void* user) {
	char folder[PATH_SIZE];
	if (fetched_folder(folder))
		each_fetched(folder, visit, user);
	if (hub_root(folder))
		each_in_hub(folder, visit, user);
}
