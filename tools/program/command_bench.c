/* `swiftlet bench`: starts the laboratory, swiftlet-bench, which stands beside the program. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "tools/program/command.h"
#include "tools/program/options.h"

int command_bench(int argc, char** argv) {
	static char name[] = "swiftlet-bench";
	char path[PATH_MAX + sizeof name];
	const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	(void)argc;
	if (n <= 0 || n == PATH_MAX)
		return complain(STATUS_FAILED, "bench: the program's own path could not be read: %s",
		                strerror(errno));
	path[n] = 0;
	char* const last = strrchr(path, '/');
	memcpy(last ? last + 1 : path, name, sizeof name);
	argv[0] = name;
	execv(path, argv);
	return complain(STATUS_FAILED,
	                "bench: %s could not be started: %s (it is built and installed with swiftlet)", path,
	                strerror(errno));
}
