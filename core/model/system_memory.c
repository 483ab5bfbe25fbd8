/* Linux: /proc/meminfo and the control group, version 2. */
#include "core/model/system_memory.h"

#include <stdio.h>

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

double number_in_file(const char* path) {
	double number = 0;
	FILE* file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%lf", &number) != 1) /* "max" */
		number = 0;
	fclose(file);
	return number;
}

double memory_available(void) {
	const double machine = meminfo_available(), limit = number_in_file("/sys/fs/cgroup/memory.max");
	const double left = limit - number_in_file("/sys/fs/cgroup/memory.current");
	if (limit > 0 && left < machine)
		return left > 0 ? left : 1;
	return machine;
}
