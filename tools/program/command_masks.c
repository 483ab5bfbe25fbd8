/* swiftlet masks: lists, shows, exports, imports and deletes masks in files and in the store. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/files/grow.h"
#include "core/model/model.h"
#include "streams/mask_file.h"
#include "streams/memory/store.h"
#include "tools/program/command.h"
#include "tools/program/draw_mask.h"
#include "tools/program/options.h"
#include "tools/program/tables.h"

struct listed {          /* what only the store knows of a mask; zero, and no speedup, for a file */
	int64_t id, updated; /* seconds since 1970 */
	int64_t cluster, tokens;
	double speedup; /* over plain decoding, of the texts that began with it; NaN: not measured */
	bool converged;
	char fingerprint[sizeof((struct store_model*)0)->fingerprint]; /* of the model, and of a tenant */
};

struct masks {
	const char* model_spec;
	const char* store_path;
	const char* output;
	const char* format;
	const char* key;
	const char* task;
	bool force, all, json;
	const char* const* word; /* (n_words) the words after the action */
	int n_words;
	struct mask_list list; /* (list.n) what the words named */
	struct listed* row;    /* (list.n) */
	struct model* model;   /* with -m */
	struct store* store;   /* NULL: not opened yet */
	const char* source;    /* for messages */
	struct error error;
};

/* ---- gathering ------------------------------------------------------------------------------ */

static void entry_of_store(const struct store_mask* from, struct mask_entry* to) {
	const struct bank_record* const r = &from->entry.record;
	mask_entry_start(to);
	snprintf(to->model, sizeof to->model, "%s", from->model.name);
	/* a tenant's name may follow the model's */
	snprintf(to->fingerprint, sizeof to->fingerprint, "%.64s", from->model.fingerprint);
	snprintf(to->task, sizeof to->task, "%s", from->entry.task);
	to->blocks = from->model.blocks;
	to->mask = from->entry.mask;
	to->matchness = quotient((double)r->matches, (double)r->rows);
	to->alpha = quotient((double)r->accepted, (double)r->draft_steps);
	to->mean_generated = quotient((double)r->round_tokens, (double)r->rounds);
	to->skip_ratio = from->entry.skip_ratio;
	to->tokens_served = r->tokens;
}

static bool append_mask(struct masks* m, const struct mask_entry* entry, struct listed row) {
	if (!grow_by_one(&m->row, (size_t)m->list.n, sizeof *m->row) || !mask_list_append(&m->list, entry))
		return error_set(&m->error, "out of memory");
	m->row[m->list.n - 1] = row;
	return true;
}

static bool append_stored(void* user, const struct store_mask* stored) {
	const struct masks* m = user;
	struct mask_entry entry;
	entry_of_store(stored, &entry);
	if (m->model && strcmp(entry.fingerprint, m->model->fingerprint) != 0)
		return true;
	struct listed row = {
	    .id = stored->id,
	    .updated = stored->updated,
	    .cluster = stored->entry.cluster,
	    .tokens = stored->entry.record.tokens,
	    .speedup = quotient((double)stored->entry.record.plain_micros, (double)stored->entry.record.micros),
	    .converged = stored->entry.converged};
	snprintf(row.fingerprint, sizeof row.fingerprint, "%s", stored->model.fingerprint);
	return append_mask(user, &entry, row);
}

static bool open_store(struct masks* m, enum store_mode mode) {
	char path[4096];
	if (m->store)
		store_close(m->store);
	m->store = NULL;
	if (m->store_path)
		snprintf(path, sizeof path, "%s", m->store_path);
	else if (!store_default_path(path, sizeof path, &m->error))
		return false;
	if (!m->store_path && mode == STORE_READ && access(path, F_OK) != 0)
		return error_set(&m->error,
		                 "nothing has been learned yet: run, chat, stream, serve and learn create %s", path);
	m->store = store_open(path, mode, &m->error);
	return m->store != NULL;
}

static bool is_id(const char* word, int64_t* id) {
	char* end;
	errno = 0;
	*id = strtoll(word, &end, 10);
	return isdigit((unsigned char)word[0]) && !*end && errno == 0 && *id > 0;
}

static bool gather_id(struct masks* m, int64_t id) {
	struct store_mask stored;
	const int found = open_store(m, STORE_READ) ? store_get(m->store, id, &stored, &m->error) : -1;
	if (found == 0)
		error_set(&m->error, "%s holds no mask %" PRId64 " (swiftlet masks list)", store_path(m->store), id);
	return found > 0 && append_stored(m, &stored);
}

static bool gather_file(struct masks* m, const char* path) {
	struct mask_list file = {0};
	if (access(path, F_OK) != 0)
		return error_set(
		    &m->error, "%s: neither a file nor the number of a mask (swiftlet masks list prints them)", path);
	bool good = mask_file_read(path, &file, &m->error);
	const struct mask_entry* const picked =
	    good && m->key ? mask_list_pick(&file, m->key, NULL, path, &m->error) : NULL;
	good = good && (!m->key || picked);
	for (int i = 0; i < file.n && good; i++)
		if (!picked || picked == &file.entry[i])
			good = append_mask(m, &file.entry[i], (struct listed){.speedup = (double)NAN});
	mask_list_free(&file);
	return good;
}

/* The masks that the words name: ids of the store or files; without words all of the store, or with -m those
 * of a model. */
static bool gather_masks(struct masks* m) {
	int64_t id;
	bool good = true;
	m->source = m->n_words ? m->word[0] : "the store";
	if (m->n_words == 0)
		good = open_store(m, STORE_READ) && store_each(m->store, NULL, append_stored, m, &m->error) &&
		       !m->error.message[0];
	for (int i = 0; i < m->n_words && good; i++)
		good = is_id(m->word[i], &id) ? gather_id(m, id) : gather_file(m, m->word[i]);
	for (int i = 0; i < m->list.n && good && m->model; i++)
		good = mask_entry_fits(&m->list.entry[i], m->model->weights.shape.n_blocks, m->model->fingerprint,
		                       m->force, m->source, &m->error);
	return good;
}

/* ---- showing -------------------------------------------------------------------------------- */

static void print_figure(const char* name, double value) {
	if (!isnan(value))
		printf("   %s %.2f", name, value);
}

/* L if it is known, else as many blocks as the mask needs, since the last one is never skipped. */
static int blocks_of(const struct masks* m, const struct mask_entry* entry) {
	if (m->model)
		return m->model->weights.shape.n_blocks;
	if (entry->blocks)
		return entry->blocks;
	int last = 0;
	for (int s = 0; s < 2 * MAX_BLOCKS; s++)
		if (mask_has(&entry->mask, s))
			last = s / 2;
	return last + 2 > MAX_BLOCKS ? MAX_BLOCKS : last + 2;
}

static bool show_mask(struct masks* m) {
	for (int i = 0; i < m->list.n; i++) {
		const struct mask_entry* const entry = &m->list.entry[i];
		char key[MASK_KEY];
		mask_entry_key(entry, key, sizeof key);
		if (m->row[i].id)
			printf("%s%" PRId64 "  ", i ? "\n" : "", m->row[i].id);
		else
			printf("%s", i ? "\n" : "");
		const int n = mask_count(&entry->mask);
		printf("%s   %d layer%s skipped", key[0] ? key : "mask", n, n == 1 ? "" : "s");
		if (!m->model && !entry->blocks)
			printf(" (the model's number of blocks is unknown: give -m MODEL)");
		print_figure("matchness", entry->matchness);
		print_figure("alpha", entry->alpha);
		print_figure("M", entry->mean_generated);
		print_figure("skip ratio", entry->skip_ratio);
		putchar('\n');
		draw_mask(stdout, &entry->mask, blocks_of(m, entry));
	}
	return true;
}

/* True when texts of its workload begin with this mask: its search converged, or it has served most. */
static bool is_in_use(const struct masks* m, int i) {
	const struct listed* const one = &m->row[i];
	for (int j = 0; j < m->list.n; j++) {
		const struct listed* const other = &m->row[j];
		const bool same = strcmp(one->fingerprint, other->fingerprint) == 0 &&
		                  one->cluster == other->cluster &&
		                  strcmp(m->list.entry[i].task, m->list.entry[j].task) == 0;
		const bool better = one->converged != other->converged ? other->converged
		                    : one->tokens != other->tokens     ? other->tokens > one->tokens
		                                                       : j < i;
		if (same && better)
			return false;
	}
	return one->id != 0;
}

/* The share of input channels, in percent, that drafts read of each kind of map, over all depths. */
static void describe_levels(const struct mask* mask, char* out, size_t size) {
	int kept[COLUMN_KINDS] = {0};
	for (int k = 0; k < COLUMN_KINDS; k++)
		for (int d = 0; d < LEVEL_DEPTHS; d++)
			kept[k] += 100 - mask->levels.left_out[d][k];
	snprintf(out, size, mask->has_levels ? "%d %d %d %d" : "all", kept[COLUMN_ATTENTION] / LEVEL_DEPTHS,
	         kept[COLUMN_ATTENTION_OUT] / LEVEL_DEPTHS, kept[COLUMN_MLP] / LEVEL_DEPTHS,
	         kept[COLUMN_DOWN] / LEVEL_DEPTHS);
}

static cJSON* describe_entry(const struct masks* m, int i) {
	const struct mask_entry* const e = &m->list.entry[i];
	const time_t updated = (time_t)m->row[i].updated;
	char date[24] = "-", text[sizeof e->task] = "-", reads[24];
	struct tm local;
	if (updated && localtime_r(&updated, &local))
		strftime(date, sizeof date, "%Y-%m-%d %H:%M", &local);
	if (e->task[0])
		snprintf(text, sizeof text, "%s", e->task);
	else if (m->row[i].id)
		snprintf(text, sizeof text, "cluster %04x", (unsigned)m->row[i].cluster & 0xffffu);
	cJSON* const row = cJSON_CreateObject();
	cJSON_AddNumberToObject(row, "id", m->row[i].id ? (double)m->row[i].id : (double)NAN);
	cJSON_AddBoolToObject(row, "in_use", is_in_use(m, i));
	cJSON_AddStringToObject(row, "model", e->key[0] ? e->key : e->model[0] ? e->model : "-");
	cJSON_AddStringToObject(row, "text", text);
	cJSON_AddStringToObject(row, "last_used", date);
	cJSON_AddNumberToObject(row, "skipped", mask_count(&e->mask));
	cJSON_AddNumberToObject(row, "skippable", 2 * (blocks_of(m, e) - 2));
	describe_levels(&e->mask, reads, sizeof reads);
	cJSON_AddStringToObject(row, "reads", reads);
	cJSON_AddNumberToObject(row, "alpha", e->alpha);
	cJSON_AddNumberToObject(row, "M", e->mean_generated);
	cJSON_AddNumberToObject(row, "speedup", m->row[i].speedup);
	cJSON_AddNumberToObject(row, "tokens_served", (double)e->tokens_served);
	return row;
}

/* A stored mask that has drafted nothing has no figures. */
static bool is_empty(const struct masks* m, int i) {
	return m->row[i].id && isnan(m->list.entry[i].alpha) && !m->row[i].converged;
}

struct columns {
	bool skips, reads;
};

/* Drops a table's columns in which no row has anything. Returns those that stay. */
static struct columns drop_empty_columns(cJSON* rows) {
	bool skips = false, reads = false;
	cJSON* row;
	cJSON_ArrayForEach (row, rows) {
		skips |= cJSON_GetObjectItem(row, "skipped")->valueint > 0;
		reads |= strcmp(cJSON_GetObjectItem(row, "reads")->valuestring, "all") != 0;
	}
	cJSON_ArrayForEach (row, rows) {
		if (!skips) {
			cJSON_DeleteItemFromObject(row, "skipped");
			cJSON_DeleteItemFromObject(row, "skippable");
		}
		if (!reads)
			cJSON_DeleteItemFromObject(row, "reads");
	}
	return (struct columns){skips, reads};
}

static void explain_table(struct columns shown) {
	puts("\nA mask in use is the one that texts of its workload begin with, where drafting with it pays.");
	if (shown.skips)
		puts("attention and mlp are the layers that drafts skip, of those that may be skipped.");
	if (shown.reads)
		puts("reads is the percentage of the inputs of attention, its output, the MLP and its last map that "
		     "drafts read.");
	puts(
	    "alpha is the share of drafted tokens that the full model confirmed, and M the tokens that one pass\n"
	    "then brought. speedup compares the texts that began with a mask with plain decoding, by the costs\n"
	    "measured while they were decoded; drafts from text count, too.");
}

static bool list_masks(struct masks* m) {
	cJSON* const rows = cJSON_CreateArray();
	int empty = 0;
	for (int i = 0; i < m->list.n; i++)
		if (m->all || !is_empty(m, i))
			cJSON_AddItemToArray(rows, describe_entry(m, i));
		else
			empty++;
	const bool some = cJSON_GetArraySize(rows) > 0;
	const struct columns shown = m->json ? (struct columns){true, true} : drop_empty_columns(rows);
	if (m->json || some)
		report_print(rows, m->json);
	else
		cJSON_Delete(rows);
	if (m->json)
		return true;
	if (some)
		explain_table(shown);
	else
		puts("No mask has drafted anything yet. If skipping layers does not pay on this machine, no mask "
		     "will.");
	if (empty > 0)
		printf("%d mask%s without a single draft %s not shown (--all shows them).\n", empty,
		       empty == 1 ? "" : "s", empty == 1 ? "is" : "are");
	return true;
}

/* ---- moving --------------------------------------------------------------------------------- */

static bool export_masks(struct masks* m) {
	const bool ours = !m->format || strcmp(m->format, "swiftlet") == 0;
	const enum mask_format format = ours ? MASK_FORMAT_SWIFTLET : MASK_FORMAT_SKIP_LAYERS;
	if (m->list.n == 0)
		return error_set(&m->error, "%s holds no mask to export", m->source);
	if (m->output)
		return mask_file_write(m->output, m->list.entry, m->list.n, format, &m->error);
	char* const text = mask_text(m->list.entry, m->list.n, format, &m->error);
	if (text)
		fputs(text, stdout);
	free(text);
	return text != NULL;
}

/* Fills in missing members from the model that -m names. */
static bool complete_entry(struct masks* m, struct mask_entry* entry) {
	if (!m->model && (!entry->fingerprint[0] || !entry->blocks))
		return error_set(&m->error, "%s does not name the model that its mask is for: give -m MODEL",
		                 m->source);
	if (m->task || !entry->task[0])
		snprintf(entry->task, sizeof entry->task, "%s", m->task ? m->task : entry->key);
	entry->key[0] = 0;
	if (!m->output && strlen(entry->task) >= BANK_TASK)
		return error_set(&m->error, "%s: the task %.40s... has more than %d bytes: name it with --task",
		                 m->source, entry->task, BANK_TASK - 1);
	if (m->model) {
		snprintf(entry->model, sizeof entry->model, "%s", m->model->name);
		snprintf(entry->fingerprint, sizeof entry->fingerprint, "%s", m->model->fingerprint);
		entry->blocks = m->model->weights.shape.n_blocks;
	}
	const int skippable = 2 * (entry->blocks - 2);
	if (isnan(entry->skip_ratio) && skippable > 0)
		entry->skip_ratio = (double)mask_count(&entry->mask) / skippable;
	return mask_entry_fits(entry, entry->blocks, entry->fingerprint, m->force, m->source, &m->error);
}

/* Makes two sums of a record whose ratio is the file's figure, to four digits; none if it is unknown. */
static void sums_of(double figure, int64_t* part, int64_t* whole) {
	enum { WHOLE = 10000 };
	*part = isnan(figure) ? 0 : llround(figure * WHOLE);
	*whole = isnan(figure) ? 0 : WHOLE;
}

static void store_of_entry(const struct mask_entry* from, struct store_model* model, struct bank_entry* to) {
	struct bank_record* const r = &to->record;
	*model = (struct store_model){.blocks = from->blocks};
	snprintf(model->fingerprint, sizeof model->fingerprint, "%s", from->fingerprint);
	snprintf(model->name, sizeof model->name, "%s", from->model);
	*to = (struct bank_entry){.mask = from->mask, .skip_ratio = from->skip_ratio};
	snprintf(to->task, sizeof to->task, "%.*s", (int)sizeof to->task - 1, from->task);
	sums_of(from->matchness, &r->matches, &r->rows);
	sums_of(from->alpha, &r->accepted, &r->draft_steps);
	sums_of(from->mean_generated, &r->round_tokens, &r->rounds);
	r->tokens = from->tokens_served;
}

static bool import_to_store(struct masks* m) {
	bool good = open_store(m, STORE_WRITE);
	for (int i = 0; i < m->list.n && good; i++) {
		struct store_model model;
		struct bank_entry entry;
		int64_t id = 0;
		store_of_entry(&m->list.entry[i], &model, &entry);
		good = store_put(m->store, &model, &entry, &id, &m->error);
		if (good)
			printf("%" PRId64 "  %s %s\n", id, model.name, entry.task);
	}
	return good;
}

static bool import_masks(struct masks* m) {
	for (int i = 0; i < m->list.n; i++)
		if (!complete_entry(m, &m->list.entry[i]))
			return false;
	return m->output ? mask_file_write(m->output, m->list.entry, m->list.n, MASK_FORMAT_SWIFTLET, &m->error)
	                 : import_to_store(m);
}

static bool delete_ids(struct masks* m) {
	bool good = open_store(m, STORE_EDIT);
	for (int i = 0; i < m->n_words && good; i++) {
		int64_t id = 0;
		is_id(m->word[i], &id);
		const int found = store_delete(m->store, id, &m->error);
		good = found > 0 ||
		       (found == 0 && error_set(&m->error, "%s holds no mask %" PRId64, store_path(m->store), id));
	}
	return good;
}

/* ---- the command ---------------------------------------------------------------------------- */

enum { LIST_MASKS, SHOW, EXPORT, IMPORT, DELETE, ACTIONS };
static const char* const action_name[ACTIONS] = {"list", "show", "export", "import", "delete"};
static bool (*const act[ACTIONS])(struct masks*) = {list_masks, show_mask, export_masks, import_masks,
                                                    delete_ids};

static int check_usage(const struct masks* m, const char* name, int* action) {
	int64_t id;
	for (*action = 0; *action < ACTIONS && strcmp(name, action_name[*action]) != 0;)
		++*action;
	if (*action == ACTIONS) {
		const char* const near = nearest_name(name, action_name, ACTIONS);
		return near
		           ? complain(STATUS_USAGE, "masks: no action \"%s\"; did you mean %s?", name, near)
		           : complain(STATUS_USAGE,
		                      "masks: no action \"%s\"; expected list, show, export, import or delete", name);
	}
	if (m->format && strcmp(m->format, "swiftlet") != 0 && strcmp(m->format, "skip_layers") != 0)
		return complain(STATUS_USAGE, "masks: --format is \"%s\", expected swiftlet or skip_layers",
		                m->format);
	if (*action >= IMPORT && m->n_words < 1)
		return complain(STATUS_USAGE, "masks %s: %s", name,
		                *action == IMPORT ? "which FILE?" : "which ID? (swiftlet masks list)");
	for (int i = 0; i < m->n_words && *action == DELETE; i++)
		if (!is_id(m->word[i], &id))
			return complain(STATUS_USAGE,
			                "masks delete: the store has no mask \"%s\" (swiftlet masks list prints the ids)",
			                m->word[i]);
	return OPTIONS_GO_ON;
}

int command_masks(int argc, char** argv) {
	struct masks m = {0};
	const struct command_option option[] = {
	    TEXT("store", 0, "FILE|URL",
	         "the store: a file, or postgresql://… (~/.local/state/swiftlet/masks.db)", &m.store_path),
	    TEXT("model", 'm', "MODEL", "the model that the masks are for; masks that do not fit are refused",
	         &m.model_spec),
	    TEXT(
	        "output", 'o', "FILE",
	        "write to this file; without it export writes to standard output, and import writes to the store",
	        &m.output),
	    TEXT("format", 0, "swiftlet|skip_layers",
	         "format of export: swiftlet's, or the published code's (swiftlet)", &m.format),
	    TEXT("key", 0, "KEY", "one mask of a file, by its key or task", &m.key),
	    TEXT("task", 0, "NAME", "import: the label of the task", &m.task),
	    FLAG("all", "list: also show masks that have drafted nothing", &m.all),
	    FLAG("json", "list: print one JSON array instead of a table", &m.json),
	    FLAG("force", "take a mask even if it was learned on another model", &m.force),
	};
	struct command_line line = {
	    .name = "masks",
	    .usage = "list|show|export|import|delete [FILE|ID ...] [options]",
	    .about =
	        "Lists, shows, exports, imports and deletes masks. A mask lists which attention and MLP layers\n"
	        "drafts skip. FILE is a mask file, ID a mask of the store; without either, the command works\n"
	        "on the whole store. `show` draws a mask with one cell for each block.",
	    .examples = "  swiftlet masks list\n"
	                "  swiftlet masks show code.mask.json\n"
	                "  swiftlet masks export code.mask.json --format skip_layers -o skip_layers.json\n"
	                "  swiftlet masks import layers.json --key llama-2-13b_cnndm -m llama-2-13b.gguf\n"
	                "  swiftlet masks delete 17",
	    OPTIONS(option),
	    .max_words = 64,
	};
	int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (line.n_words == 0)
		return complain(STATUS_USAGE,
		                "masks: expected list, show, export, import or delete (swiftlet masks --help)");
	m.word = line.word + 1;
	m.n_words = line.n_words - 1;
	int action;
	status = check_usage(&m, line.word[0], &action);
	if (status != OPTIONS_GO_ON)
		return status;
	if (m.model_spec)
		m.model = model_open(m.model_spec, NULL, &m.error);
	const bool good = (!m.model_spec || m.model) && (action == DELETE || gather_masks(&m)) && act[action](&m);
	status = good ? output_written(STATUS_DONE) : complain(STATUS_FAILED, "%s", m.error.message);
	if (m.store)
		store_close(m.store);
	mask_list_free(&m.list);
	free(m.row);
	if (m.model)
		model_close(m.model);
	return status;
}
