/* Finds NCCL at run time, and whether it is new enough. */
#include "kernels/cuda/nccl.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { LEAST = 21800 }; /* 2.18, the first for CUDA 12.1 and later */

#define INSTALL                                                                                              \
	"install libnccl2 of NVIDIA's packages, or `pip install nvidia-nccl-cu12` and name its libnccl.so.2 in " \
	"SWIFTLET_NCCL"

static bool find_nccl(void* library, const char* name, void** out) {
	*out = dlsym(library, name);
	return *out != NULL;
}

static bool find_calls(void* library, struct nccl_calls* calls) {
	return find_nccl(library, "ncclCommInitAll", (void**)&calls->comm_init_all) &&
	       find_nccl(library, "ncclCommDestroy", (void**)&calls->comm_destroy) &&
	       find_nccl(library, "ncclCommAbort", (void**)&calls->comm_abort) &&
	       find_nccl(library, "ncclCommGetAsyncError", (void**)&calls->comm_get_async_error) &&
	       find_nccl(library, "ncclAllGather", (void**)&calls->all_gather) &&
	       find_nccl(library, "ncclGroupStart", (void**)&calls->group_start) &&
	       find_nccl(library, "ncclGroupEnd", (void**)&calls->group_end) &&
	       find_nccl(library, "ncclGetErrorString", (void**)&calls->get_error_string);
}

bool nccl_find(struct nccl_calls* calls, struct error* error) {
	const char* const named = getenv("SWIFTLET_NCCL");
	const char* const name = named && named[0] ? named : "libnccl.so.2";
	int (*get_version)(int*) = NULL;
	int version = 0;
	void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return error_set(error,
		                 "several GPUs communicate through NCCL, which was not found (%.120s): " INSTALL,
		                 dlerror());
	if (find_nccl(library, "ncclGetVersion", (void**)&get_version) && get_version(&version) == NCCL_SUCCESS &&
	    version >= LEAST && find_calls(library, calls))
		return true;
	dlclose(library);
	if (version <= 0 || version >= LEAST)
		return error_set(error, "%.200s is not a version of NCCL that this program knows: " INSTALL, name);
	/* 2.8 and before count by thousands, later ones by ten thousands */
	const int major = version < 10000 ? version / 1000 : version / 10000;
	return error_set(error, "%.200s is NCCL %d.%d: 2.18 or later is needed; " INSTALL, name, major,
	                 version / 100 % (version < 10000 ? 10 : 100));
}
