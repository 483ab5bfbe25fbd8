/* Finding a low-bit copy's file, or making the copy and writing it. */
#include "core/model/low_copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/model/low_file.h"
#include "kernels/clock.h"
#include "kernels/cpu/cores.h"

bool low_copy_folder(char out[1024]) {
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n = -1;
	if (xdg && *xdg)
		n = snprintf(out, 1024, "%s/swiftlet", xdg);
	else if (home && *home)
		n = snprintf(out, 1024, "%s/.cache/swiftlet", home);
	return n > 0 && n < 1024;
}

/* Every missing folder on the way. */
static bool make_folder(const char* folder) {
	char path[1024];
	const int n = snprintf(path, sizeof path, "%s", folder);
	if (n < 1 || n >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return false;
	}
	for (char* slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST && access(path, F_OK) != 0)
			return false;
		*slash = '/';
	}
	return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* ---- what fits ------------------------------------------------------------------------------ */

/* A copy is there to save time: by default it does not crowd out what else the machine is for. */
static const double SHARE_OF_AVAILABLE = 0.25;

static double meminfo_available(void) {
	char line[128];
	double kilobytes = 0;
	FILE* file = fopen("/proc/meminfo", "re");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "MemAvailable: %lf kB", &kilobytes) == 1)
			break;
	if (file)
		fclose(file);
	return kilobytes * 1024;
}

static double number_in(const char* path) {
	double number = 0;
	FILE* file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%lf", &number) != 1) /* "max" */
		number = 0;
	fclose(file);
	return number;
}

double low_memory_available(void) {
	const double machine = meminfo_available(), limit = number_in("/sys/fs/cgroup/memory.max");
	const double left = limit - number_in("/sys/fs/cgroup/memory.current");
	if (limit > 0 && left < machine)
		return left > 0 ? left : 1;
	return machine;
}

static bool fits(const struct low_copy* copy, const struct low_wish* wish, struct error* error) {
	const double bytes = (double)copy->table.bytes, available = low_memory_available();
	if (wish->most_bytes > 0 && bytes > wish->most_bytes)
		return error_set(error, "the %d-bit copy for drafting takes %.1f MiB, more than the %.1f MiB allowed",
		                 wish->form.bits, bytes / 0x1p20, wish->most_bytes / 0x1p20);
	if (wish->most_bytes <= 0 && available > 0 && bytes > SHARE_OF_AVAILABLE * available)
		return error_set(error,
		                 "the %d-bit copy for drafting takes %.1f MiB, more than a quarter of the %.1f MiB "
		                 "available (--draft-memory allows more)",
		                 wish->form.bits, bytes / 0x1p20, available / 0x1p20);
	return true;
}

/* ---- which bits ----------------------------------------------------------------------------- */

/* The largest cache, as the kernel tells it, in KiB; 0: it does not. (What sysconf says of a virtual
 * machine's may be ten times too much.) */
static double last_level_cache(void) {
	double most = 0;
	for (int index = 0; index < 8; index++) {
		char path[80];
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
		const double bytes = 1024 * number_in(path);
		most = bytes > most ? bytes : most;
	}
	return most;
}

static double bytes_of(const struct tensor* t) {
	return tensor_present(t) ? (double)t->rows * (double)dtype_row_bytes(t->type, t->cols) : 0;
}

static double sub_layer_bytes(const struct weight_table* w) {
	double bytes = 0;
	for (int b = 0; b < w->shape.n_blocks; b++) {
		const struct block_weights* k = &w->block[b];
		for (int part = 0; part < BLOCK_PARTS; part++)
			bytes += bytes_of(block_tensor(k, part));
		for (int e = 0; tensor_present(&k->router) && e < w->shape.n_experts; e++)
			bytes += bytes_of(&k->expert[e].w_gate) + bytes_of(&k->expert[e].w_up) +
			         bytes_of(&k->expert[e].w_down);
	}
	return bytes;
}

/* Whether the plan leaves so small a share of the blocks' bytes that a draft with it can pay. */
static bool is_worth_it(const struct low_table* low) {
	static const double MOST_SHARE = 0.6;
	const double stored = sub_layer_bytes(low->stored);
	double copied = 0, of = 0;
	for (int i = 0; i < low->n_items - low->head; i++) {
		copied += (double)low->item[i].bytes;
		of += bytes_of(low->item[i].stored);
	}
	return stored - of + copied <= MOST_SHARE * stored;
}

int low_bits_for(const struct model* model) {
	const int bits = 4; /* a row in 3 takes no less time (bench kernels), and guesses worse */
	struct low_table table;
	struct error error;
	if (sub_layer_bytes(&model->weights) <= last_level_cache())
		return 0;
	const bool worth =
	    low_plan(&table, &model->weights, (struct low_form){.bits = bits}, &error) && is_worth_it(&table);
	low_close(&table);
	return worth ? bits : 0;
}

bool low_head_pays(const struct weight_table* w) {
	static const double LEAST_SHARE = 0.1, MOST_OF_MEMORY = 0.25;
	const double head = bytes_of(&w->output), step = head + sub_layer_bytes(w);
	const double available = low_memory_available();
	const double copy = (double)w->output.rows * (double)dtype_row_bytes(DTYPE_Q4_0, w->output.cols);
	return step > last_level_cache() && head >= LEAST_SHARE * step &&
	       (available <= 0 || copy <= MOST_OF_MEMORY * available);
}

/* ---- found or made -------------------------------------------------------------------------- */

bool low_copy_plan(struct low_copy* copy, const struct model* model, const struct low_wish* wish,
                   struct error* error) {
	*copy = (struct low_copy){0};
	if (!low_plan(&copy->table, &model->weights, wish->form, error))
		return false;
	if (copy->table.bytes == 0)
		return true;
	if (!fits(copy, wish, error))
		return false;
	const int folder = wish->folder ? snprintf(copy->folder, sizeof copy->folder, "%s", wish->folder) : 0;
	const enum dtype type = copy->table.type;
	const bool woven = wish->form.woven && (type == DTYPE_Q4_K || type == DTYPE_Q4_0);
	const int n =
	    snprintf(copy->path, sizeof copy->path, "%s/%s-%s%s%s.low", copy->folder, model->fingerprint,
	             dtype_name(type), woven ? "-woven" : "", wish->form.coarse_head ? "-blocks" : "");
	if (folder < 1 || folder >= (int)sizeof copy->folder || n >= (int)sizeof copy->path)
		copy->path[0] = '\0';
	return true;
}

/* ---- missed --------------------------------------------------------------------------------- */

static bool missed_path(const struct low_copy* copy, char path[1040]) {
	return copy->path[0] && snprintf(path, 1040, "%s.missed", copy->path) < 1040;
}

double low_copy_missed(const struct low_copy* copy) {
	char path[1040];
	const double seconds = missed_path(copy, path) ? number_in(path) : 0;
	return seconds > 0 && seconds < 1e12 ? seconds : 0;
}

void low_copy_miss(const struct low_copy* copy, double seconds) {
	char path[1040];
	if (!(seconds > 0) || !missed_path(copy, path) || !make_folder(copy->folder))
		return;
	const double all = low_copy_missed(copy) + seconds;
	FILE* file = fopen(path, "we");
	if (!file)
		return; /* it is a hint */
	fprintf(file, "%.3f\n", all);
	fclose(file);
}

double low_copy_effort(const struct low_copy* copy, int threads) {
	const double by_a_thread = copy->table.rounding->weights_per_second;
	double weights = 0;
	for (int i = 0; i < copy->table.n_items; i++)
		weights += (double)copy->table.item[i].stored->rows * (double)copy->table.item[i].stored->cols;
	return weights / (by_a_thread * (threads > 0 ? threads : cores_available()));
}

bool low_copy_take_memory(struct low_copy* copy, struct error* error) {
	static const size_t huge = (size_t)2 << 20;
	const size_t bytes = (copy->table.bytes + huge - 1) / huge * huge;
	copy->memory = aligned_alloc(huge, bytes);
	if (!copy->memory)
		return error_set(error, "out of memory for a %d-bit copy of %.1f MiB", copy->table.form.bits,
		                 (double)copy->table.bytes / 0x1p20);
	madvise(copy->memory, bytes, MADV_HUGEPAGE); /* a wish: fewer faults, and fewer misses of the TLB */
	low_place(&copy->table, copy->memory);
	return true;
}

static void take_bytes(struct low_copy* copy) {
	struct error ignored;
	const unsigned char* bytes = copy->file.data + LOW_FILE_HEAD;
	if (!low_copy_take_memory(copy, &ignored)) {
		low_place(&copy->table, bytes);
		return;
	}
	memcpy(copy->memory, bytes, copy->table.bytes);
	mapping_close(&copy->file);
}

bool low_copy_find(struct low_copy* copy, const struct model* model) {
	const double started = seconds_now();
	struct error error;
	if (!copy->path[0])
		return false;
	errno = 0;
	const bool there = mapping_open(&copy->file, copy->path, &error);
	if (!there && errno == ENOENT) /* none yet, or none any more: that is no fault */
		return false;
	if (there) {
		mapping_will_need(&copy->file);
		if (low_file_check(copy->file.data, copy->file.size, &copy->table, model->fingerprint, copy->path,
		                   &error)) {
			take_bytes(copy);
			copy->found = true;
			copy->seconds = seconds_now() - started;
			return true;
		}
		mapping_close(&copy->file);
	}
	snprintf(copy->warning, sizeof copy->warning, "made anew: %.480s", error.message);
	return false;
}

void low_copy_keep(struct low_copy* copy, const struct model* model) {
	struct error error;
	if (!copy->path[0])
		return;
	bool kept = make_folder(copy->folder) || error_set(&error, "%.300s: %s", copy->folder, strerror(errno));
	kept = kept && low_file_write(copy->path, &copy->table, model->fingerprint, copy->memory, &error);
	char missed[1040];
	if (missed_path(copy, missed))
		unlink(missed);
	if (!kept)
		snprintf(copy->warning, sizeof copy->warning, "not kept for the next start: %.470s", error.message);
}

bool low_copy_open(struct low_copy* copy, const struct model* model, const struct low_wish* wish,
                   struct error* error) {
	const double started = seconds_now();
	if (!low_copy_plan(copy, model, wish, error))
		return false;
	if (copy->table.bytes == 0 || low_copy_find(copy, model))
		return true;
	if (!low_copy_take_memory(copy, error) ||
	    !low_make(&copy->table, copy->memory, wish->threads, wish->progress, wish->user, error))
		return false;
	copy->seconds = seconds_now() - started;
	low_copy_keep(copy, model);
	return true;
}

void low_copy_close(struct low_copy* copy) {
	low_close(&copy->table);
	mapping_close(&copy->file);
	free(copy->memory);
	*copy = (struct low_copy){0};
}
