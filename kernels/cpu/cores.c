/* CPUs this process may use: see cores.h. */
#include "kernels/cpu/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int count_allowed(void) {
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set) == 0)
		return CPU_COUNT(&set);
	const long cores = sysconf(_SC_NPROCESSORS_ONLN); /* more than a cpu_set_t holds */
	return cores > 0 && cores < INT_MAX ? (int)cores : 1;
}

/* cpu.max holds "QUOTA PERIOD" in microseconds, or "max PERIOD". */
static int read_limit(const char* file) {
	long long quota, period;
	FILE* f = fopen(file, "re");
	if (!f)
		return 0;
	const bool limited = fscanf(f, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0;
	fclose(f);
	if (!limited)
		return 0;
	const long long cores = quota / period + (quota % period != 0);
	return cores < INT_MAX ? (int)cores : 0;
}

int cores_of_group(const char* root, const char* path) {
	char group[PATH_MAX], file[2 * PATH_MAX];
	const int length = snprintf(group, sizeof group, "%s", path);
	if (length < 0 || (size_t)length >= sizeof group)
		return 0;
	int least = 0;
	for (;;) {
		const int n = snprintf(file, sizeof file, "%s%s/cpu.max", root, group);
		const int limit = n > 0 && (size_t)n < sizeof file ? read_limit(file) : 0;
		if (limit > 0 && (least == 0 || limit < least))
			least = limit;
		char* slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* The group's path, from the line "0::/a/b" of /proc/self/cgroup. */
static int group_limit(void) {
	char line[PATH_MAX + 8];
	int limit = 0;
	FILE* f = fopen("/proc/self/cgroup", "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof line, f))
		if (strncmp(line, "0::", 3) == 0) {
			line[strcspn(line, "\n")] = '\0';
			limit = cores_of_group("/sys/fs/cgroup", line + 3);
		}
	fclose(f);
	return limit;
}

int cores_available(void) {
	const int cores = count_allowed(), limit = group_limit();
	return limit > 0 && limit < cores ? limit : cores > 0 ? cores : 1;
}
