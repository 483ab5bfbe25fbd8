/* Finding a low-bit copy's file, or making the copy and writing it. */
#include "core/model/low_copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/model/low_file.h"

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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

static bool fits(const struct low_copy* copy, const struct low_wish* wish, struct error* error) {
	const double bytes = (double)copy->table.bytes;
	const double here = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	if (wish->most_bytes > 0 && bytes > wish->most_bytes)
		return error_set(error, "the %d-bit copy for drafting takes %.1f MiB, more than the %.1f MiB allowed",
		                 wish->bits, bytes / 0x1p20, wish->most_bytes / 0x1p20);
	if (bytes > here)
		return error_set(error,
		                 "the %d-bit copy for drafting takes %.1f GiB, this machine's memory is %.1f GiB",
		                 wish->bits, bytes / 0x1p30, here / 0x1p30);
	return true;
}

/* Maps the file where there is a good one. */
static bool find(struct low_copy* copy, const struct model* model) {
	struct error error;
	if (!copy->path[0] || access(copy->path, F_OK) != 0)
		return false;
	if (mapping_open(&copy->file, copy->path, &error)) {
		mapping_will_need(&copy->file);
		if (low_file_check(copy->file.data, copy->file.size, &copy->table, model->fingerprint, copy->path,
		                   &error)) {
			low_place(&copy->table, copy->file.data + LOW_FILE_HEAD);
			return true;
		}
		mapping_close(&copy->file);
	}
	snprintf(copy->warning, sizeof copy->warning, "made anew: %.480s", error.message);
	return false;
}

static bool make(struct low_copy* copy, const struct low_wish* wish, struct error* error) {
	copy->memory = aligned_alloc(LOW_ALIGNMENT, copy->table.bytes);
	if (!copy->memory)
		return error_set(error, "out of memory for a %d-bit copy of %.1f MiB", wish->bits,
		                 (double)copy->table.bytes / 0x1p20);
	low_place(&copy->table, copy->memory);
	return low_make(&copy->table, copy->memory, wish->threads, wish->progress, wish->user, error);
}

static void keep(struct low_copy* copy, const struct model* model, const char* folder) {
	struct error error;
	bool kept = make_folder(folder) || error_set(&error, "%.300s: %s", folder, strerror(errno));
	kept = kept && low_file_write(copy->path, &copy->table, model->fingerprint, copy->memory, &error);
	if (!kept)
		snprintf(copy->warning, sizeof copy->warning, "not kept for the next start: %.470s", error.message);
}

bool low_copy_open(struct low_copy* copy, const struct model* model, const struct low_wish* wish,
                   struct error* error) {
	const double started = now();
	*copy = (struct low_copy){0};
	if (!low_plan(&copy->table, &model->weights, wish->bits, error))
		return false;
	if (copy->table.bytes == 0)
		return true;
	if (!fits(copy, wish, error))
		return false;
	const int n = wish->folder ? snprintf(copy->path, sizeof copy->path, "%s/%s-%s.low", wish->folder,
	                                      model->fingerprint, dtype_name(copy->table.type))
	                           : 0;
	const bool named = n > 0 && n < (int)sizeof copy->path;
	if (!named)
		copy->path[0] = '\0';
	bool good = find(copy, model);
	if (!good) {
		good = make(copy, wish, error);
		copy->seconds = now() - started;
		if (good && named)
			keep(copy, model, wish->folder);
	} else
		copy->seconds = now() - started;
	return good;
}

void low_copy_close(struct low_copy* copy) {
	low_close(&copy->table);
	mapping_close(&copy->file);
	free(copy->memory);
	*copy = (struct low_copy){0};
}
