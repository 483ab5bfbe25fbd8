/* Mask files. Both formats are read with every field checked. A file is replaced as a whole or not at all. */
#include "streams/mask_file.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/files/error_in.h"
#include "core/files/grow.h"
#include "core/files/json.h"
#include "core/files/mapping.h"
#include "streams/json_text.h"

enum { MAX_ENTRIES = 4096, MAX_FILE = 16 << 20 };
static const char format_name[] = "swiftlet-mask-1", states_format_name[] = "swiftlet-mask-2";

/* ---- lists -------------------------------------------------------------------------------- */

void mask_entry_start(struct mask_entry* entry) {
	memset(entry, 0, sizeof *entry);
	entry->matchness = entry->alpha = entry->mean_generated = entry->skip_ratio = NAN;
}

void mask_list_free(struct mask_list* list) {
	free(list->entry);
	*list = (struct mask_list){0};
}

bool mask_list_append(struct mask_list* list, const struct mask_entry* entry) {
	if (!grow_by_one(&list->entry, (size_t)list->n, sizeof *entry))
		return false;
	list->entry[list->n++] = *entry;
	return true;
}

int mask_blocks(const struct mask* mask, int kind, int* blocks) {
	int n = 0;
	for (int b = 0; b < MAX_BLOCKS; b++)
		if (mask_has(mask, 2 * b + kind))
			blocks[n++] = b;
	return n;
}

bool mask_entry_key(const struct mask_entry* entry, char* key, size_t size) {
	const bool own = entry->key[0] != 0;
	const int n = own ? snprintf(key, size, "%s", entry->key)
	                  : snprintf(key, size, "%s%s%s", entry->model,
	                             entry->model[0] && entry->task[0] ? "_" : "", entry->task);
	return n >= 0 && (size_t)n < size;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* The location of a field, for messages. */
struct mask_location {
	const char* file;
	char entry[512]; /* "FILE: mask N" */
	struct error* error;
};
#define wrong(at, ...) error_in((at)->error, (at)->entry, __VA_ARGS__)

bool mask_read_blocks(const cJSON* object, const char* field, int kind, int blocks, struct mask* mask,
                      struct error* error) {
	const cJSON* const list = cJSON_GetObjectItemCaseSensitive(object, field);
	if (!cJSON_IsArray(list))
		return error_set(error, "\"%s\" is %s, expected a list of blocks", field,
		                 list ? "not a list" : "missing");
	const int limit = blocks > 0 ? blocks : MAX_BLOCKS;
	const cJSON* item;
	cJSON_ArrayForEach (item, list) {
		int64_t b;
		char shown[80];
		if (!json_whole(item, 0, limit - 1, &b))
			return error_set(error, "\"%s\" holds %s, expected blocks from 0 to %d", field,
			                 json_show(item, shown, sizeof shown), limit - 1);
		if (mask_has(mask, 2 * (int)b + kind))
			return error_set(error, "\"%s\" holds block %d twice", field, (int)b);
		mask_set(mask, 2 * (int)b + kind, true);
	}
	return true;
}

static bool read_blocks(const cJSON* object, const char* field, int kind, int blocks, struct mask* mask,
                        const struct mask_location* at) {
	struct error why;
	return mask_read_blocks(object, field, kind, blocks, mask, &why) || wrong(at, "%s", why.message);
}

/* An optional string; null and absent are "". */
static bool read_string(const cJSON* object, const char* field, char* out, size_t size,
                        const struct mask_location* at) {
	const cJSON* const item = json_field(object, field);
	if (!item)
		return true;
	if (!cJSON_IsString(item) || strlen(item->valuestring) >= size)
		return wrong(at, "\"%s\" is %s, expected a string of at most %zu bytes", field,
		             cJSON_IsString(item) ? "too long" : "not a string", size - 1);
	strcpy(out, item->valuestring);
	return true;
}

/* An optional figure in [least, most]; null and absent leave *out as it is. */
static bool read_figure(const cJSON* object, const char* field, double least, double most, double* out,
                        const struct mask_location* at) {
	const cJSON* const item = json_field(object, field);
	if (!item)
		return true;
	if (!cJSON_IsNumber(item) || !(item->valuedouble >= least && item->valuedouble <= most))
		return wrong(at, "\"%s\" is out of range, expected %g to %g or null", field, least, most);
	*out = item->valuedouble;
	return true;
}

static const char* const level_name[COLUMN_KINDS] = {
    [COLUMN_ATTENTION] = "attention",
    [COLUMN_ATTENTION_OUT] = "attention_output",
    [COLUMN_MLP] = "mlp",
    [COLUMN_DOWN] = "down",
};

bool mask_read_levels(const struct cJSON* object, struct mask* mask) {
	const cJSON* const levels = json_field(object, "levels");
	if (!levels)
		return true;
	for (int kind = 0; kind < COLUMN_KINDS; kind++) {
		const cJSON* const list = cJSON_GetObjectItemCaseSensitive(levels, level_name[kind]);
		const cJSON* item = cJSON_IsArray(list) ? list->child : NULL;
		for (int depth = 0; depth < LEVEL_DEPTHS; depth++, item = item->next) {
			if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0.01 && item->valuedouble <= 1))
				return false;
			mask->levels.left_out[depth][kind] = (uint8_t)lround(100 * (1 - item->valuedouble));
		}
		if (item)
			return false;
	}
	mask->has_levels = true;
	return true;
}

/* Earlier versions wrote "stored" in place of levels or beside them; it is not read any more. */
static bool read_states(const cJSON* object, struct mask* mask, const struct mask_location* at) {
	return (mask_read_levels(object, mask) && (mask->has_levels || json_field(object, "stored"))) ||
	       wrong(at, "\"levels\" is missing or has another form, expected " MASK_LEVELS);
}

static bool read_entry(const cJSON* object, struct mask_entry* entry, const struct mask_location* at) {
	mask_entry_start(entry);
	const cJSON* const format = cJSON_GetObjectItemCaseSensitive(object, "format");
	const char* const is = cJSON_IsString(format) ? format->valuestring : "";
	const bool states = strcmp(is, states_format_name) == 0;
	if (!states && strcmp(is, format_name) != 0)
		return wrong(at, "\"format\" is \"%.100s\", expected \"%s\" or \"%s\"", is, format_name,
		             states_format_name);
	double blocks = 0, served = 0;
	const bool good = read_string(object, "model", entry->model, sizeof entry->model, at) &&
	                  read_string(object, "fingerprint", entry->fingerprint, sizeof entry->fingerprint, at) &&
	                  read_string(object, "task", entry->task, sizeof entry->task, at) &&
	                  read_figure(object, "blocks", 1, MAX_BLOCKS, &blocks, at) &&
	                  read_blocks(object, "attention", 0, (int)blocks, &entry->mask, at) &&
	                  read_blocks(object, "mlp", 1, (int)blocks, &entry->mask, at) &&
	                  (!states || read_states(object, &entry->mask, at)) &&
	                  read_figure(object, "matchness", 0, 1, &entry->matchness, at) &&
	                  read_figure(object, "alpha", 0, 1, &entry->alpha, at) &&
	                  read_figure(object, "M", 0, 1e6, &entry->mean_generated, at) &&
	                  read_figure(object, "skip_ratio", 0, 1, &entry->skip_ratio, at) &&
	                  read_figure(object, "tokens_served", 0, 9007199254740992.0, &served, at);
	if (good && blocks != floor(blocks))
		return wrong(at, "\"blocks\" is %g, expected a whole number", blocks);
	entry->blocks = (int)blocks;
	entry->tokens_served = (int64_t)served;
	return good;
}

static bool read_key_entry(const cJSON* item, struct mask_entry* entry, const struct mask_location* at) {
	mask_entry_start(entry);
	if (!cJSON_IsObject(item))
		return error_set(at->error,
		                 "%s: \"%.100s\" is not an object, expected {\"attention\": [...], \"mlp\": [...]}",
		                 at->file, item->string);
	if (strlen(item->string) >= sizeof entry->key)
		return error_set(at->error, "%s: key \"%.40s...\" is too long, expected at most %zu bytes", at->file,
		                 item->string, sizeof entry->key - 1);
	memcpy(entry->key, item->string, strlen(item->string) + 1);
	return read_blocks(item, "attention", 0, 0, &entry->mask, at) &&
	       read_blocks(item, "mlp", 1, 0, &entry->mask, at);
}

static bool read_entries(const cJSON* root, struct mask_list* list, struct mask_location* at) {
	/* A mask of skip_layers may have the key "format", but only our format has a string there. */
	const cJSON* const format = cJSON_GetObjectItemCaseSensitive(root, "format");
	const bool ours = cJSON_IsArray(root) || (format && !cJSON_IsObject(format));
	if (!root->child)
		return error_set(at->error, "%s: the file holds no mask, expected an object or a list of objects",
		                 at->file);
	const cJSON* item = cJSON_IsObject(root) && ours ? root : root->child;
	for (int n = 0; item; item = item == root ? NULL : item->next) {
		struct mask_entry entry;
		if (n == MAX_ENTRIES)
			return error_set(at->error, "%s: more than %d masks", at->file, MAX_ENTRIES);
		snprintf(at->entry, sizeof at->entry, "%.480s: mask %d", at->file, ++n);
		if (!(ours ? read_entry(item, &entry, at) : read_key_entry(item, &entry, at)))
			return false;
		if (!mask_list_append(list, &entry))
			return error_set(at->error, "%s: out of memory", at->file);
	}
	return true;
}

bool mask_text_read(const char* text, size_t size, const char* name, struct mask_list* list,
                    struct error* error) {
	struct error why = {{0}};
	if (!json_check(text, size, &why))
		return error_set(error, "%s: %.400s", name, why.message);
	cJSON* const root = cJSON_ParseWithLength(text, size);
	if (!root)
		return error_set(error, "%s: could not be read as JSON", name);
	const int before = list->n;
	struct mask_location at = {.file = name, .error = error};
	const bool good = read_entries(root, list, &at);
	if (!good)
		list->n = before;
	cJSON_Delete(root);
	return good;
}

bool mask_file_read(const char* path, struct mask_list* list, struct error* error) {
	struct mapping file; /* opening a pipe without a writer does not block then */
	if (!mapping_open(&file, path, error))
		return false;
	const bool good =
	    file.size > MAX_FILE
	        ? error_set(error, "%s: larger than %d MiB, so it is not a mask file", path, MAX_FILE >> 20)
	        : mask_text_read((const char*)file.data, file.size, path, list, error);
	mapping_close(&file);
	return good;
}

/* ---- writing ------------------------------------------------------------------------------ */

void mask_put_blocks(struct text* out, const struct mask* mask) {
	int block[MAX_BLOCKS];
	text_json(out, "'attention':");
	text_integers(out, block, mask_blocks(mask, 0, block));
	text_json(out, ",'mlp':");
	text_integers(out, block, mask_blocks(mask, 1, block));
}

static void put_levels(struct text* out, const struct levels* levels) {
	for (int kind = 0; kind < COLUMN_KINDS; kind++) {
		text_json(out, kind ? ",'%s':[" : "'%s':[", level_name[kind]);
		for (int depth = 0; depth < LEVEL_DEPTHS; depth++)
			text_json(out, depth ? ",%g" : "%g", (100 - levels->left_out[depth][kind]) / 100.0);
		text_put(out, "]");
	}
}

void mask_put_states(struct text* out, const struct mask* mask) {
	if (!mask->has_levels)
		return;
	text_json(out, ",'levels':{");
	put_levels(out, &mask->levels);
	text_put(out, "}");
}

const char* mask_format_name(const struct mask* mask) {
	return mask->has_levels ? states_format_name : format_name;
}

static const char* or_null(const char* text) { return *text ? text : NULL; }

static void put_entry(struct text* out, const struct mask_entry* entry) {
	text_json(out, "{'format':'%s','model':%q,'fingerprint':%q,'blocks':%r,'task':%q,",
	          mask_format_name(&entry->mask), or_null(entry->model), or_null(entry->fingerprint),
	          entry->blocks > 0 ? (double)entry->blocks : (double)NAN,
	          or_null(entry->task[0] ? entry->task : entry->key));
	mask_put_blocks(out, &entry->mask);
	mask_put_states(out, &entry->mask);
	text_json(out, ",'matchness':%r,'alpha':%r,'M':%r,'skip_ratio':%r,'tokens_served':%l}", entry->matchness,
	          entry->alpha, entry->mean_generated, entry->skip_ratio, entry->tokens_served);
}

/* key: (n) each once. */
static bool put_keyed(struct text* out, const struct mask_entry* entry, int n, char (*key)[MASK_KEY],
                      struct error* error) {
	for (int i = 0; i < n; i++) {
		if (!mask_entry_key(&entry[i], key[i], MASK_KEY))
			return error_set(error, "the key %.60s... is longer than %d bytes", key[i], MASK_KEY - 1);
		if (!key[i][0])
			snprintf(key[i], MASK_KEY, "mask_%d", i + 1);
		for (int other = 0; other < i; other++)
			if (strcmp(key[other], key[i]) == 0)
				return error_set(error, "two masks have the key \"%s\": pick one with --key", key[i]);
		text_json(out, i ? ",%q:{" : "%q:{", key[i]);
		mask_put_blocks(out, &entry[i].mask);
		text_put(out, "}");
	}
	return true;
}

char* mask_text(const struct mask_entry* entry, int n, enum mask_format format, struct error* error) {
	const bool ours = format == MASK_FORMAT_SWIFTLET;
	char(*key)[MASK_KEY] = ours ? NULL : calloc((size_t)n + 1, sizeof *key);
	struct text out = {0};
	error_set(error, "out of memory");
	text_put(&out, !ours ? "{" : n == 1 ? "" : "[");
	for (int i = 0; ours && i < n; i++) {
		text_put(&out, i ? "," : "");
		put_entry(&out, &entry[i]);
	}
	out.failed |= !ours && (!key || !put_keyed(&out, entry, n, key, error));
	text_put(&out, !ours ? "}\n" : n == 1 ? "\n" : "]\n");
	free(key);
	return text_take(&out);
}

/* The text at the path, or false with errno. */
static bool write_whole(const char* path, const char* text) {
	FILE* const file = fopen(path, "wb");
	if (!file)
		return false;
	const bool written = fputs(text, file) >= 0;
	return fclose(file) == 0 && written;
}

bool mask_file_write(const char* path, const struct mask_entry* entry, int n, enum mask_format format,
                     struct error* error) {
	char* const text = mask_text(entry, n, format, error);
	if (!text)
		return false;
	struct stat status;
	const bool beside = stat(path, &status) != 0 || S_ISREG(status.st_mode);
	const size_t room = strlen(path) + 24;
	char* const temporary = malloc(room);
	bool good = temporary != NULL;
	if (good) {
		snprintf(temporary, room, beside ? "%s.%ld.new" : "%s", path, (long)getpid());
		good = write_whole(temporary, text) && (!beside || rename(temporary, path) == 0);
		const int why = errno;
		if (!good && beside)
			unlink(temporary);
		errno = why;
	}
	if (!good)
		error_set(error, "%s: could not be written: %s", path, strerror(errno));
	free(temporary);
	free(text);
	return good;
}

/* ---- choosing ----------------------------------------------------------------------------- */

static const struct mask_entry* refuse_choice(const struct mask_list* list, const char* name,
                                              const char* problem, struct error* error) {
	struct text keys = {0};
	for (int i = 0; i < list->n && keys.size < 256; i++) {
		char key[MASK_KEY];
		mask_entry_key(&list->entry[i], key, sizeof key);
		text_print(&keys, "%s%s", i ? ", " : "", key);
	}
	error_set(error, "%s: %s; it holds %d: %.255s", name, problem, list->n, keys.data ? keys.data : "");
	text_free(&keys);
	return NULL;
}

const struct mask_entry* mask_list_pick(const struct mask_list* list, const char* key,
                                        const char* fingerprint, const char* name, struct error* error) {
	const struct mask_entry* found = NULL;
	int n = 0;
	for (int i = 0; i < list->n; i++) {
		const struct mask_entry* const entry = &list->entry[i];
		char own[MASK_KEY];
		mask_entry_key(entry, own, sizeof own);
		const bool wanted = key           ? strcmp(own, key) == 0 || strcmp(entry->task, key) == 0
		                    : list->n > 1 ? fingerprint && strcmp(entry->fingerprint, fingerprint) == 0
		                                  : true;
		if (wanted) {
			n++;
			found = entry;
		}
	}
	if (n == 1)
		return found;
	char problem[200];
	if (key)
		snprintf(problem, sizeof problem, "%s mask of the key \"%.100s\"", n ? "more than one" : "no", key);
	else
		snprintf(problem, sizeof problem, "several masks, pick one with --key");
	return refuse_choice(list, name, problem, error);
}

bool mask_entry_fits(const struct mask_entry* entry, int blocks, const char* fingerprint, bool force,
                     const char* name, struct error* error) {
	for (int s = 0; s < 2 * MAX_BLOCKS; s++) {
		if (!mask_has(&entry->mask, s) || (s >= 2 && s < 2 * (blocks - 1)))
			continue;
		if (s >= 2 * blocks)
			return error_set(error, "%s: \"%s\" holds block %d, but the model has blocks 0 to %d", name,
			                 s % 2 ? "mlp" : "attention", s / 2, blocks - 1);
		return error_set(error, "%s: \"%s\" holds block %d; the first and the last block are never skipped",
		                 name, s % 2 ? "mlp" : "attention", s / 2);
	}
	if (force)
		return true;
	if (entry->blocks && entry->blocks != blocks)
		return error_set(error, "%s: \"blocks\" is %d, but the model has %d (--force takes the mask anyway)",
		                 name, entry->blocks, blocks);
	if (entry->fingerprint[0] && strcmp(entry->fingerprint, fingerprint) != 0)
		return error_set(error,
		                 "%s: the mask was learned on another model: its fingerprint is %.12s..., this "
		                 "model's is %.12s... (--force takes the mask anyway)",
		                 name, entry->fingerprint, fingerprint);
	return true;
}
