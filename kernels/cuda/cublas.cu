/* Finds cuBLAS at run time. Prefill chunks go faster with it; nothing else needs it. */
#include <dlfcn.h>
#include <stdio.h>

#include "kernels/cuda/cuda.cuh"

static void* open_library(void) {
	static const char* const folder[] = {"", "/usr/local/cuda/lib64/",
	                                     "/usr/local/cuda/targets/x86_64-linux/lib/"};
	void* library = NULL;
	for (size_t i = 0; i < sizeof folder / sizeof folder[0] && !library; i++) {
		char name[128];
		snprintf(name, sizeof name, "%slibcublas.so.%d", folder[i], CUDART_VERSION / 1000);
		library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	}
	return library;
}

template <class F> static bool find_cublas(void* library, const char* name, F* out) {
	*out = (F)dlsym(library, name);
	return *out != NULL;
}

bool cublas_find(struct cublas_calls* calls) {
	void* library = open_library(); /* stays open: there is nothing to gain by closing it */
	return library && find_cublas(library, "cublasCreate_v2", &calls->create) &&
	       find_cublas(library, "cublasDestroy_v2", &calls->destroy) &&
	       find_cublas(library, "cublasSetStream_v2", &calls->set_stream) &&
	       find_cublas(library, "cublasSetWorkspace_v2", &calls->set_workspace) &&
	       find_cublas(library, "cublasGemmEx", &calls->gemm) &&
	       find_cublas(library, "cublasGetStatusString", &calls->describe);
}
