/* Joins the processes that MPI started, through a module that is linked with MPI. */
#include "tools/program/ranks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/decode/engine.h"
#include "kernels/process_group.h"
#include "tools/program/options.h"

static struct process_group* joined;

struct process_group* ranks_group(void) {
	return joined;
}

/* Environment variables that launchers set for their processes: Open MPI; MPICH and its kin. */
static bool is_one_of_several(void) {
	static const char* const size[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
	for (size_t i = 0; i < sizeof size / sizeof *size; i++)
		if (getenv(size[i]) && atoi(getenv(size[i])) > 1)
			return true;
	return false;
}

/* Looks beside the built program, and where the module is installed. */
static void* load_module(void) {
	static const char* const place[] = {"lib", "../lib/swiftlet"};
	char program[3000], path[4096];
	const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	void* module = NULL;
	if (n <= 0)
		return NULL;
	program[n] = 0;
	*strrchr(program, '/') = 0;
	for (size_t i = 0; i < sizeof place / sizeof *place && !module; i++) {
		snprintf(path, sizeof path, "%s/%s/swiftlet-mpi.so", program, place[i]);
		module = dlopen(
		    path, RTLD_NOW | RTLD_GLOBAL); /* global, because Open MPI's own modules look for its symbols */
	}
	return module;
}

static void leave_group(void) {
	engine_dismiss(joined);
	joined->close(joined);
}

int ranks_join(void) {
	struct error error = {""};
	if (!is_one_of_several())
		return OPTIONS_GO_ON;
	void* const module = load_module();
	struct process_group* (*open)(void) = NULL;
	if (module)
		*(void**)&open = dlsym(module, "process_group_mpi_open");
	if (!open)
		return complain(
		    STATUS_FAILED,
		    "this is one of several processes (mpirun), but swiftlet-mpi.so was not built or does not "
		    "load: %s. Install MPI (Debian: libopenmpi-dev) and build again",
		    dlerror());
	joined = open();
	if (!joined)
		return complain(STATUS_FAILED, "out of memory");
	if (joined->rank == 0) {
		atexit(leave_group);
		return OPTIONS_GO_ON;
	}
	const int rank = joined->rank;
	if (!engine_follow(joined, &error)) {
		complain(0, "rank %d: %s", rank, error.message);
		_exit(STATUS_FAILED); /* the launcher sees that this process left without finishing MPI, and ends the
		                         others */
	}
	joined->close(joined);
	return STATUS_DONE;
}
