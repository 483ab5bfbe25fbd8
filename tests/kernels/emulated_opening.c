/* The CUDA backend on devices and drivers that lack something: it reports it and does without, or
 * is refused before anything is loaded. On the emulated device, which a test can set to lack something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/draft_weights.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

enum { VOCAB = 90, COMMITTED = 20, STEPS = 6 };

/* ---- what is said --------------------------------------------------------------------------- */

/* Standard error goes to a file, until its text is asked for. */
struct listener {
	FILE* file;
	int before;
};

static struct listener listen_to_errors(void) {
	struct listener l = {tmpfile(), dup(STDERR_FILENO)};
	assert_non_null(l.file);
	fflush(stderr);
	dup2(fileno(l.file), STDERR_FILENO);
	return l;
}

static void said(struct listener* l, char text[2000]) {
	fflush(stderr);
	dup2(l->before, STDERR_FILENO);
	close(l->before);
	rewind(l->file);
	text[fread(text, 1, 1999, l->file)] = 0;
	fclose(l->file);
}

static int times(const char* text, const char* part) {
	int n = 0;
	for (const char* at = strstr(text, part); at; at = strstr(at + 1, part))
		n++;
	return n;
}

/* ---- a model that is played ----------------------------------------------------------------- */

static struct random_model* small_model(void) {
	static const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(2, 64, 2, 1, 32, 96, VOCAB);
	return random_model_make(&shape, &type, 1, 0, 21);
}

struct played {
	float logits[COMMITTED * VOCAB];
	int32_t drafted[STEPS];
};

static void run_chain(struct backend* b, struct cache* c, const int32_t* token, int n, struct result* out,
                      const struct mask* quantized) {
	static uint8_t want[MAX_ROWS];
	memset(want, WANT_TOKEN | WANT_LOGITS, sizeof want);
	const struct segment segment = {.cache = c, .base = c->committed, .n = n};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .last = 2 * b->weights->shape.n_blocks,
	                          .quantized = quantized,
	                          .quantized_head = quantized != NULL,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	must_run(b, &pass);
}

/* Logits of a text's rows, and drafts after it: by the device's loop where there are some, else step by step.
 */
static void play(struct backend* b, struct played* out) {
	struct error error;
	struct result result[COMMITTED];
	int32_t text[COMMITTED], path[COMMITTED];
	float scratch[VOCAB];
	struct cache* c = must_open_cache(b, 64, DTYPE_F16);
	for (int i = 0; i < COMMITTED; i++) {
		text[i] = (i * 7 + 3) % VOCAB;
		path[i] = i;
		result[i] = (struct result){.logits = out->logits + i * VOCAB};
	}
	run_chain(b, c, text, COMMITTED, result, NULL);
	b->commit(c, path, COMMITTED);
	if (b->draft) {
		struct draft_policy policy = {.max_steps = STEPS, .top = 1};
		for (int i = 0; i < DRAFT_BINS; i++)
			policy.accept[i] = 1;
		struct result drafted[STEPS] = {{0}};
		const struct segment chain = {.cache = c, .base = COMMITTED, .n = 1};
		assert_int_equal(b->draft(b, &chain, 5, NULL, NULL, false, NULL, &policy, drafted, &error), STEPS);
		for (int i = 0; i < STEPS; i++)
			out->drafted[i] = drafted[i].token;
		b->discard(c);
	} else
		for (int32_t i = 0, token = 5; i < STEPS; i++) {
			struct result one = {.logits = scratch};
			run_chain(b, c, &token, 1, &one, NULL);
			b->commit(c, path, 1);
			out->drafted[i] = token = one.token;
		}
	b->cache_close(c);
}

/* ---- drivers and libraries ------------------------------------------------------------------ */

/* The runtime's requirement counts, not the version that this was compiled with. */
static void a_driver_is_asked_for_what_is_needed(void** state) {
	(void)state;
	struct error error = {""};
	setenv("EMULATED_DRIVER", "12080", 1);
	assert_true(cuda_available(&error));
	setenv("EMULATED_RUNTIME", "13000", 1);
	assert_false(cuda_available(&error));
	assert_string_equal(
	    error.message,
	    "the NVIDIA driver supports CUDA 12.8, but this swiftlet was built with CUDA 13.0 and needs a "
	    "newer driver; a swiftlet built with the CUDA Toolkit 12.4 runs on drivers for 12.0 and later");
	unsetenv("EMULATED_RUNTIME");
	unsetenv("EMULATED_DRIVER");
}

static void without_cublas_it_reports_that(void** state) {
	(void)state;
	struct random_model* m = small_model();
	struct error error = {""};
	char text[2000];
	for (int devices = 0; devices <= 1; devices++) {
		const struct backend_options options = {.context = 64, .devices = devices};
		setenv("EMULATED_NO_CUBLAS", "1", 1);
		struct listener listener = listen_to_errors();
		struct backend* b = cuda_open(&m->weights, &options, &error);
		said(&listener, text);
		unsetenv("EMULATED_NO_CUBLAS");
		assert_non_null(b);
		assert_true(b->prefill_is_exact);
		/* --devices 1 does without it by choice */
		assert_int_equal(times(text, "cuBLAS (libcublas.so.13) was not found: prompts"), devices == 0);
		b->close(b);
	}
	random_model_free(m);
}

/* Early launches, loops, any graph: each is done without, said once, and changes no bit. */
static void what_cannot_be_captured_is_launched_by_the_host(void** state) {
	(void)state;
	static const struct {
		const char *refused, *said;
		bool loops;
		const char* set; /* instead of what the driver refuses: what was asked for, which needs no words */
	} way[] = {{NULL, "swiftlet:", true, NULL},
	           {"early", "cannot start kernels early", true, NULL},
	           {"loops", "cannot loop a graph, so drafts go step by step: cudaGraphConditionalHandleCreate",
	            false, NULL},
	           {"graphs",
	            "cannot capture passes, so the host launches their kernels one by one: cudaGraphInstantiate",
	            false, NULL},
	           {"off", "swiftlet:", false, "SWIFTLET_CUDA_GRAPHS"}};
	struct random_model* m = small_model();
	const struct backend_options options = {.context = 64};
	static struct played usual, other;
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		struct error error = {""};
		char text[2000];
		if (way[i].refused)
			setenv(way[i].set ? way[i].set : "EMULATED_REFUSES", way[i].refused, 1);
		struct listener listener = listen_to_errors();
		struct backend* b = cuda_open(&m->weights, &options, &error);
		if (b)
			play(b, &other);
		said(&listener, text);
		unsetenv("EMULATED_REFUSES");
		unsetenv("SWIFTLET_CUDA_GRAPHS");
		if (!b)
			fail_msg("%s refused: %s", way[i].refused, error.message);
		assert_int_equal(times(text, way[i].said), way[i].refused && !way[i].set);
		assert_int_equal(b->draft != NULL, way[i].loops);
		b->close(b);
		if (i == 0)
			usual = other;
		assert_memory_equal(&usual, &other, sizeof usual);
	}
	random_model_free(m);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void give_memory(int mib) {
	char text[16];
	snprintf(text, sizeof text, "%d", mib);
	setenv("EMULATED_MEMORY_MIB", text, 1);
}

static struct backend* open_in(int mib, const struct weight_table* w, int context, struct error* error) {
	const struct backend_options options = {.context = context, .devices = 1};
	give_memory(mib);
	return cuda_open(w, &options, error);
}

/* The least memory of a device, in MiB, that the model opens in. */
static int least_memory(const struct weight_table* w, int context) {
	int refused = 0, opens = 1024;
	while (opens - refused > 1) {
		const int mib = (opens + refused) / 2;
		struct error error = {""};
		struct backend* b = open_in(mib, w, context, &error);
		if (b)
			b->close(b);
		else if (!strstr(error.message, "the model does not fit the GPU"))
			fail_msg("with %d MiB: %s", mib, error.message);
		*(b ? &opens : &refused) = mib;
	}
	return opens;
}

/* An open engine has room for all that passes take and a cache: nothing fails after minutes of copying. */
static void what_passes_need_is_counted(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_Q8_0, DTYPE_F16};
	enum { CONTEXT = 9000 };
	const struct model_shape shape = random_shape(2, 128, 4, 2, 64, 512, 2000);
	struct random_model* m = random_model_make(&shape, types, 2, 0, 5);
	struct error error = {""};
	const int least = least_memory(&m->weights, CONTEXT);
	struct backend* b = open_in(least, &m->weights, CONTEXT, &error);
	assert_non_null(b);
	struct cache* c = must_open_cache(b, CONTEXT, DTYPE_F16);
	b->cache_close(c);
	b->close(b);
	assert_null(open_in(least - 1, &m->weights, CONTEXT, &error));
	assert_non_null(strstr(error.message, "caches for a context of 9000 tokens"));
	unsetenv("EMULATED_MEMORY_MIB");
	random_model_free(m);
}

static void what_graphs_take_is_reported(void** state) {
	(void)state;
	struct random_model* m = small_model();
	const struct backend_options options = {.context = 64};
	struct error error = {""};
	char text[2000];
	setenv("SWIFTLET_CUDA_REPORT", "memory", 1);
	struct listener listener = listen_to_errors();
	struct backend* b = cuda_open(&m->weights, &options, &error);
	said(&listener, text);
	unsetenv("SWIFTLET_CUDA_REPORT");
	assert_non_null(b);
	/* nine graphs of nine launches in each of two blocks and ten beside, 16 KiB each */
	assert_int_equal(times(text, "captured passes take 0.0 MiB of the GPU's memory, 3.9 were assumed"), 1);
	b->close(b);
	random_model_free(m);
}

/* Draft weights that nobody asked for take what a cache needs, and give it back; those that were asked for
 * stay. */
static void try_copy(bool optional) {
	static const enum dtype type = DTYPE_F16;
	enum { CONTEXT = 16000 };
	const struct model_shape shape = random_shape(2, 256, 4, 4, 64, 512, VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 6);
	struct error error = {""};
	struct draft_weights quantized;
	char text[2000];
	assert_true(
	    draft_weights_plan(&quantized, &m->weights, (struct draft_weights_format){.bits = 4}, &error));
	quantized.optional = optional;
	void* data = aligned_alloc(DRAFT_WEIGHTS_ALIGNMENT, quantized.bytes);
	draft_weights_place(&quantized, data);
	assert_true(draft_weights_make(&quantized, data, 1, NULL, NULL, &error));
	struct backend* b = open_in(least_memory(&m->weights, CONTEXT), &m->weights, CONTEXT, &error);
	assert_non_null(b);
	if (!b->use_draft_weights(b, &quantized, &error))
		fail_msg("%s", error.message);
	struct listener listener = listen_to_errors();
	struct cache* c = b->cache_open(b, CONTEXT, DTYPE_F16, &error);
	said(&listener, text);
	assert_int_equal(c != NULL, optional);
	assert_int_equal(b->draft_weights_released, optional);
	assert_int_equal(times(text, "gave their memory on the GPU to caches"), optional);
	if (c) {
		bool all = true;
		static float stored[VOCAB], asked[VOCAB];
		const int32_t token = 7;
		struct result first = {.logits = stored}, second = {.logits = asked};
		assert_true(b->upload_draft_weights(b, SIZE_MAX, &all, &error) && !all);
		run_chain(b, c, &token, 1, &first, NULL);
		b->discard(c);
		run_chain(b, c, &token, 1, &second, &quantized.sub_layers);
		assert_memory_equal(stored, asked,
		                    sizeof stored); /* a pass with the draft weights runs what is stored */
		b->cache_close(c);
	} else
		assert_non_null(strstr(error.message, "out of GPU memory"));
	b->close(b);
	unsetenv("EMULATED_MEMORY_MIB");
	free(data);
	draft_weights_close(&quantized);
	random_model_free(m);
}

static void a_copy_gives_way_to_caches(void** state) {
	(void)state;
	try_copy(true);
	try_copy(false);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_driver_is_asked_for_what_is_needed),
	                                   cmocka_unit_test(without_cublas_it_reports_that),
	                                   cmocka_unit_test(what_cannot_be_captured_is_launched_by_the_host),
	                                   cmocka_unit_test(what_passes_need_is_counted),
	                                   cmocka_unit_test(what_graphs_take_is_reported),
	                                   cmocka_unit_test(a_copy_gives_way_to_caches)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
