/* MTP layers of GGUF files against llama.cpp (tools/oracle/gguf_mtp.py): the layer's first choice is the
 * model's own next token at the positions where it is in llama.cpp, and at no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/files/json.h"
#include "core/model/model.h"

enum { MOST_TOKENS = 128 };

struct text {
	int32_t token[MOST_TOKENS], right[MOST_TOKENS];
	int n, prompt, n_asked;
};

static int numbers(const cJSON* json, const char* field, int32_t* out) {
	int n = 0;
	const cJSON* one;
	cJSON_ArrayForEach (one, cJSON_GetObjectItemCaseSensitive(json, field)) {
		assert_true(n < MOST_TOKENS);
		out[n++] = (int32_t)one->valuedouble;
	}
	assert_true(n > 0);
	return n;
}

/* The likeliest token after each of n tokens. states: what the table's rows begin with (a layer's), or NULL;
 * out_states (n, dim) what the head reads, or NULL. */
static void choose(const struct weight_table* weights, const int32_t* token, int n, const float* states,
                   float* out_states, int32_t* chosen, const char* isa) {
	struct error error = {""};
	struct result out[MOST_TOKENS] = {{0}};
	uint8_t want[MOST_TOKENS];
	const struct backend_options options = {.threads = 2, .isa = isa, .context = MOST_TOKENS};
	struct backend* backend = cpu_open(weights, &options, &error);
	if (!backend)
		fail_msg("%s", error.message);
	struct cache* cache = backend->cache_open(backend, MOST_TOKENS, DTYPE_F32, &error);
	assert_non_null(cache);
	memset(want, WANT_TOKEN, sizeof want);
	const struct segment segment = {.cache = cache, .n = n};
	struct pass pass = pass_over(&segment, token, NULL, 2 * weights->shape.n_blocks, want, out);
	pass.head = true;
	pass.state = states;
	pass.normed_out = out_states;
	if (!backend->run(backend, &pass, &error))
		fail_msg("%s", error.message);
	for (int i = 0; i < n; i++)
		chosen[i] = out[i].token;
	backend->discard(cache);
	backend->cache_close(cache);
	backend->close(backend);
}

static void check_file(const char* name, const char* isa) {
	char path[1200];
	struct error error = {""};
	struct text t = {0};
	int32_t chosen[MOST_TOKENS];
	snprintf(path, sizeof path, "%s/tests/core/golden/mtp/%s/golden.json", getenv("SWIFTLET_SOURCE"), name);
	cJSON* json = json_read(path, &error);
	if (!json)
		fail_msg("%s", error.message);
	t.n = numbers(json, "tokens", t.token);
	t.n_asked = numbers(json, "right", t.right);
	t.prompt = (int)cJSON_GetObjectItemCaseSensitive(json, "prompt")->valuedouble;
	assert_true(t.prompt + t.n_asked < t.n);
	snprintf(path, sizeof path, "%s/tests/core/golden/mtp/%s/model.gguf", getenv("SWIFTLET_SOURCE"), name);
	struct model* model = model_open(path, NULL, &error);
	if (!model)
		fail_msg("%s", error.message);
	if (model->mtp.shape.n_blocks == 0)
		fail_msg("%s: no MTP layer was found: %s", name, model->mtp_note);
	float* states = calloc((size_t)t.n, (size_t)model->weights.shape.dim * sizeof *states);
	assert_non_null(states);
	choose(&model->weights, t.token, t.n, NULL, states, chosen, isa);
	for (int i = t.prompt; i < t.n; i++)
		assert_int_equal(chosen[i - 1], t.token[i]);
	/* its row i takes token i + 1 and the state of token i */
	choose(&model->mtp, t.token + 1, t.n - 1, states, NULL, chosen, isa);
	int right = 0;
	for (int k = 0; k < t.n_asked; k++) {
		const int i = t.prompt + k;
		const bool is = chosen[i - 1] == t.token[i + 1];
		if (is != (t.right[k] != 0))
			fail_msg("%s, %s: after position %d the layer says %d where the text has %d; llama.cpp's is %s",
			         name, isa, i, chosen[i - 1], t.token[i + 1], is ? "wrong" : "right");
		right += is;
	}
	print_message("%s, %s: right at %d of %d positions, as in llama.cpp\n", name, isa, right, t.n_asked);
	assert_true(right > 0 && right < t.n_asked);
	free(states);
	model_close(model);
	cJSON_Delete(json);
}

static void as_in_llama_cpp(void** state) {
	const char* name = *state;
	check_file(name, "reference");
	check_file(name, "auto");
}

int main(void) {
	static char dense[] = "qwen3-5", experts[] = "qwen3-5-moe", next[] = "qwen3-next",
	            latent[] = "glm4-moe-lite", yarn[] = "deepseek-v3", glm[] = "glm4-moe";
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_prestate(as_in_llama_cpp, dense),
	    cmocka_unit_test_prestate(as_in_llama_cpp, experts),
	    cmocka_unit_test_prestate(as_in_llama_cpp, next),
	    cmocka_unit_test_prestate(as_in_llama_cpp, latent),
	    cmocka_unit_test_prestate(as_in_llama_cpp, yarn),
	    cmocka_unit_test_prestate(as_in_llama_cpp, glm),
	};
	if (!getenv("SWIFTLET_SOURCE")) {
		printf("skipped: SWIFTLET_SOURCE is not set to the source tree\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
