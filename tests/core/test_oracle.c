/* Models against transformers and llama.cpp: every folder under tests/core/golden that holds a golden.json
 * is a test by its name. Greedy tokens are equal, matchness of random masks is equal, logits are within 1e-4
 * of the largest with a cache in F32, whatever the stored type, and within 2e-3 with the F16 cache that F16
 * and BF16 models get by default: the judge's keys and values are not rounded, and so narrow a model does not
 * average the rounding away. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/dtype_table.h"
#include "support_golden.h"
#include "tests/sanitized.h"

/* The paths to open: the built-in model has several prompts and lies elsewhere; GGUF folders hold a file, or
 * the first of a split set; the others are Hugging Face folders themselves. */
static void find_model(const char* name, const char* folder, char* spec, size_t size) {
	static const char* const file[] = {"model.gguf", "model-00001-of-00003.gguf"};
	snprintf(spec, size, "%s", strncmp(name, "builtin", 7) == 0 ? "builtin" : folder);
	for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
		char path[1200];
		snprintf(path, sizeof path, "%s/%s", folder, file[i]);
		if (access(path, R_OK) == 0)
			snprintf(spec, size, "%s", path);
	}
}

static void check(const struct model* model, const struct golden* g, const char* name, const char* isa,
                  enum dtype cache, double bound) {
	const struct golden_bound b = {bound, cache, isa};
	const double worst = golden_check(model, g, &b);
	print_message("%s, %s, cache %s: logits within %.1e of the largest\n", name, isa, dtype_name(cache),
	              worst);
}

static void check_folder(void** state) {
	const char* name = *state;
	char folder[1024], spec[1200];
	struct error error = {""};
	snprintf(folder, sizeof folder, "%s/tests/core/golden/%s", getenv("SWIFTLET_SOURCE"), name);
	find_model(name, folder, spec, sizeof spec);
	struct model* model = model_open(spec, NULL, &error);
	if (!model)
		fail_msg("%s", error.message);
	struct golden g;
	golden_read(&g, folder, model->weights.shape.vocab);
	static const char* const isa[] = {"reference", "auto"};
	/* Most quantized weights are multiplied with activations rounded to 8 bits, the judge's are not rounded;
	 * then the measure is how far llama.cpp is, which rounds them too. */
	const bool quantized =
	    g.llama_cpp_error > 0 && dtype_block(model->dtype) > 1 && !dtype_is_decoded(model->dtype);
	const bool halves = model->dtype != DTYPE_F32;
	for (int i = 0; i < 2; i++) {
		if (SANITIZED && !halves && i != (int)strlen(name) % 2) /* else models of F32 by one of the kernels */
			continue;
		if (!SANITIZED || !halves || i == 0) /* else each kind of cache by one of the kernels */
			check(model, &g, name, isa[i], DTYPE_F32, quantized ? 1.5 * g.llama_cpp_error : 1e-4);
		if (halves && (!SANITIZED || i == 1))
			check(model, &g, name, isa[i], DTYPE_F16, quantized ? 1.5 * g.llama_cpp_error : 2e-3);
	}
	golden_free(&g);
	model_close(model);
}

static int by_name(const void* a, const void* b) {
	return strcmp(((const struct CMUnitTest*)a)->name, ((const struct CMUnitTest*)b)->name);
}

int main(void) {
	const char* source = getenv("SWIFTLET_SOURCE");
	enum { LIMIT = 256 };
	static struct CMUnitTest tests[LIMIT];
	char path[1024];
	size_t n = 0;
	snprintf(path, sizeof path, "%s/tests/core/golden", source ? source : ".");
	DIR* list = source ? opendir(path) : NULL;
	if (!list) {
		printf("skipped: SWIFTLET_SOURCE is not set to the source tree\n");
		return 77;
	}
	for (struct dirent* entry; (entry = readdir(list)) && n < LIMIT;) {
		char golden[1400];
		snprintf(golden, sizeof golden, "%s/%s/golden.json", path, entry->d_name);
		FILE* file = fopen(golden, "re");
		if (!file)
			continue;
		fclose(file);
		char* name = strdup(entry->d_name);
		tests[n++] = (struct CMUnitTest){.name = name, .test_func = check_folder, .initial_state = name};
	}
	closedir(list);
	qsort(tests, n, sizeof *tests, by_name);
	if (n == 0)
		return 1;
	return _cmocka_run_group_tests("oracle", tests, n, NULL, NULL);
}
