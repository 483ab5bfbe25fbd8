/* The names of MODEL: the built-in model, a folder, a file under any name, org/name in a local cache; and the
 * fingerprint that separates models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/model/model.h"
#include "core/model/places.h"
#include "core/model/sha256.h"

static char folder[] = "/tmp/swiftlet-model-XXXXXX";

static int make_folder(void** state) {
	(void)state;
	return getenv("SWIFTLET_SOURCE") && mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void** state) {
	(void)state;
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static const char* golden(const char* name) {
	static char path[1024];
	snprintf(path, sizeof path, "%s/tests/core/golden/%s", getenv("SWIFTLET_SOURCE"), name);
	return path;
}

static const char* inside(const char* name) {
	static char path[1024];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static struct model* open_good(const char* spec) {
	struct error error = {""};
	struct model* model = model_open(spec, NULL, &error);
	if (!model)
		fail_msg("%s", error.message);
	return model;
}

static void fingerprint_of(const char* spec, char out[65]) {
	struct model* model = open_good(spec);
	memcpy(out, model->fingerprint, 65);
	model_close(model);
}

/* FIPS 180-4's own examples, and a million letters given in uneven parts. */
static void sha256(void** state) {
	(void)state;
	static const char* const known[][2] = {
	    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
	struct sha256 hash;
	char hex[65];
	for (size_t i = 0; i < 3; i++) {
		sha256_start(&hash);
		sha256_add(&hash, known[i][0], strlen(known[i][0]));
		sha256_end(&hash, hex);
		assert_string_equal(hex, known[i][1]);
	}
	char many[1000];
	memset(many, 'a', sizeof many);
	sha256_start(&hash);
	for (size_t given = 0, part = 1; given < 1000000; given += part, part = part % 997 + 1) {
		part = part < 1000000 - given ? part : 1000000 - given;
		sha256_add(&hash, many, part);
	}
	sha256_end(&hash, hex);
	assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void builtin(void** state) {
	(void)state;
	struct model* model = open_good("builtin");
	assert_string_equal(model->name, "builtin");
	assert_string_equal(model->family, "llama");
	assert_int_equal(model->weights.shape.n_blocks, 20);
	assert_int_equal(model->dtype, DTYPE_F16);
	assert_int_equal(model->n_end_tokens, 1);
	assert_true(model_is_end(model, 2));
	assert_false(model_is_end(model, 1));
	assert_non_null(model->chat_template);
	assert_ptr_equal(model->weights.output.data, model->weights.embedding.data);
	assert_true(model->parameters > 4.2e6 && model->parameters < 4.3e6);
	model_close(model);
}

/* A name without folders, and the end token once. */
static void names(void** state) {
	(void)state;
	char spec[1100];
	snprintf(spec, sizeof spec, "%s///", golden("llama-gqa-f16"));
	struct model* model = open_good(spec);
	assert_string_equal(model->name, "llama-gqa-f16");
	assert_int_equal(model->n_end_tokens, 1);
	assert_true(model_is_end(model, 271));
	model_close(model);
}

/* generation_config.json: its end tokens stand in the place of config.json's, and what generations do that
 * say nothing else is kept; what is not done is said. */
static void generation_config(void** state) {
	(void)state;
	static const char* const files[] = {"config.json", "model.safetensors", "tokenizer.json",
	                                    "tokenizer_config.json"};
	char from[1100], to[1100];
	assert_int_equal(mkdir(inside("generation"), 0700), 0);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(from, sizeof from, "%s/%s", golden("llama-gqa-f16"), files[i]);
		snprintf(to, sizeof to, "%s/%s", inside("generation"), files[i]);
		assert_int_equal(symlink(from, to), 0);
	}
	FILE* out = fopen(inside("generation/generation_config.json"), "w");
	assert_non_null(out);
	fputs("{\"eos_token_id\": [7, 5], \"repetition_penalty\": 1.25, \"suppress_tokens\": [9, 3], "
	      "\"no_repeat_ngram_size\": 3}",
	      out);
	assert_int_equal(fclose(out), 0);
	struct model* model = open_good(inside("generation"));
	assert_int_equal(model->n_end_tokens, 2);
	assert_true(model_is_end(model, 5) && model_is_end(model, 7) && !model_is_end(model, 271));
	assert_true(model->repetition_penalty == 1.25f);
	assert_true(model->n_suppressed == 2 && model->suppressed[0] == 9 && model->suppressed[1] == 3);
	assert_true(model->no_repeat == 3 && !model->warning[0]);
	model_close(model);
}

/* A GGUF file is known by its content: under a hash, behind a link, alone in a folder. */
static void gguf_by_content(void** state) {
	(void)state;
	char target[1100];
	snprintf(target, sizeof target, "%s", golden("gguf-llama-untied/model.gguf"));
	assert_int_equal(mkdir(inside("blobs"), 0700), 0);
	assert_int_equal(symlink(target, inside("blobs/sha256-0123")), 0);
	assert_int_equal(mkdir(inside("alone"), 0700), 0);
	assert_int_equal(symlink(target, inside("alone/x.gguf")), 0);
	char first[65], second[65], third[65];
	fingerprint_of(target, first);
	fingerprint_of(inside("blobs/sha256-0123"), second);
	fingerprint_of(inside("alone"), third);
	assert_string_equal(first, second);
	assert_string_equal(first, third);
}

/* A head that is stored and is not the embedding, beside tie_word_embeddings: true, is used, and said. */
static void tied_in_words_alone(void** state) {
	(void)state;
	struct error error = {""};
	struct model* model = model_open(golden("llama-untied-in-words-f16"), NULL, &error);
	if (!model)
		fail_msg("%s", error.message);
	assert_true(model->weights.output.data != model->weights.embedding.data);
	assert_non_null(strstr(model->warning, "tie_word_embeddings is true, but lm_head.weight is stored"));
	model_close(model);
	model = model_open(golden("llama-tied-f16"), NULL, &error);
	assert_non_null(model);
	assert_string_equal(model->warning, "");
	model_close(model);
}

/* Any part of a split set opens the whole of it. */
static void split_set(void** state) {
	(void)state;
	char first[65], second[65];
	fingerprint_of(golden("gguf-llama-split/model-00001-of-00003.gguf"), first);
	fingerprint_of(golden("gguf-llama-split/model-00003-of-00003.gguf"), second);
	assert_string_equal(first, second);
}

struct names {
	char text[256];
};
static void see_name(void* user, const struct model_place* place) {
	struct names* names = user;
	if (strstr(place->name, "tiny")) {
		strcat(names->text, " ");
		strcat(names->text, place->name);
	}
}

static void refused_name(const char* spec, const char* words) {
	struct error error = {""};
	assert_null(model_open(spec, NULL, &error));
	if (!strstr(error.message, words))
		print_error("expected \"%s\" in: %s\n", words, error.message);
	assert_non_null(strstr(error.message, words));
}

static void hub(void** state) {
	(void)state;
	char other[65];
	struct error error = {""};
	setenv("HF_HUB_CACHE", folder, 1);
	assert_null(model_open("nobody/nothing", NULL, &error));
	assert_non_null(strstr(error.message, "hf download nobody/nothing"));
	assert_null(model_open("nobody/../nothing", NULL, &error));
	assert_null(strstr(error.message, "download"));
	assert_int_equal(mkdir(inside("models--org--tiny"), 0700), 0);
	assert_int_equal(mkdir(inside("models--org--tiny/refs"), 0700), 0);
	assert_int_equal(mkdir(inside("models--org--tiny/snapshots"), 0700), 0);
	FILE* ref = fopen(inside("models--org--tiny/refs/main"), "we");
	assert_non_null(ref);
	fputs("abcdef\n", ref);
	fclose(ref);
	char target[1100];
	snprintf(target, sizeof target, "%s", golden("llama-gqa-f16"));
	assert_int_equal(symlink(target, inside("models--org--tiny/snapshots/abcdef")), 0);
	struct model* model = open_good("org/tiny");
	assert_string_equal(model->name, "org/tiny");
	char same[65];
	fingerprint_of(target, same);
	assert_string_equal(model->fingerprint, same);
	model_close(model);

	/* revisions: a branch, the beginning of a commit, one that is not here, and several without main */
	ref = fopen(inside("models--org--tiny/refs/v2"), "we");
	assert_non_null(ref);
	fputs("fedcba", ref);
	fclose(ref);
	assert_int_equal(symlink(golden("llama-mqa-bf16"), inside("models--org--tiny/snapshots/fedcba")), 0);
	fingerprint_of("org/tiny", same);
	fingerprint_of("org/tiny@v2", other);
	assert_string_not_equal(same, other);
	fingerprint_of("org/tiny@fed", same);
	assert_string_equal(same, other);
	static struct names names;
	places_each(see_name, &names);
	assert_string_equal(names.text, " org/tiny org/tiny@v2");
	refused_name("org/tiny@v3", "hf download org/tiny --revision v3");
	refused_name("org/tiny@../../x", "No such file");
	refused_name("Org/TINY", "did you mean org/tiny?");
	assert_int_equal(unlink(inside("models--org--tiny/refs/main")), 0);
	refused_name("org/tiny", "not its revision main");

	/* a name without an organisation; a download that was broken off */
	snprintf(target, sizeof target, "%s", inside("models--org--tiny"));
	assert_int_equal(rename(target, inside("models--tiny")), 0);
	fingerprint_of("tiny@v2", same);
	assert_string_equal(same, other);
	assert_int_equal(unlink(inside("models--tiny/snapshots/fedcba")), 0);
	assert_int_equal(mkdir(inside("models--tiny/snapshots/fedcba"), 0700), 0);
	refused_name("tiny@v2", "hf download tiny fetches what is missing");
	unsetenv("HF_HUB_CACHE");
}

/* A folder of GGUF files stands for the only model in it. */
static void gguf_folders(void** state) {
	(void)state;
	char set[65], same[65], target[1100], path[PATH_SIZE];
	assert_int_equal(mkdir(inside("gguf"), 0700), 0);
	for (int i = 1; i <= 3; i++) {
		char file[64];
		snprintf(file, sizeof file, "gguf-llama-split/model-%05d-of-00003.gguf", i);
		snprintf(path, sizeof path, "%s", golden(file));
		snprintf(file, sizeof file, "gguf/model-%05d-of-00003.gguf", i);
		assert_int_equal(symlink(path, inside(file)), 0);
	}
	snprintf(target, sizeof target, "%s", path);
	assert_int_equal(symlink(target, inside("gguf/mmproj-model.gguf")), 0);
	fingerprint_of(golden("gguf-llama-split/model-00001-of-00003.gguf"), set);
	snprintf(path, sizeof path, "%s", inside("gguf"));
	fingerprint_of(path, same);
	assert_string_equal(set, same);
	assert_int_equal(symlink(target, inside("gguf/another.gguf")), 0);
	refused_name(path, "give the path of the GGUF file");
}

/* One bit of one weight, in any tensor, makes another model where it is sampled; another type does too. */
static void fingerprints(void** state) {
	(void)state;
	char a[65], b[65];
	fingerprint_of(golden("llama-gqa-f16"), a);
	fingerprint_of(golden("llama-mqa-bf16"), b);
	assert_string_not_equal(a, b);
	struct model* model = open_good("builtin");
	struct block_weights copy[20];
	static uint8_t norm[2 * 128];
	memcpy(copy, model->weights.block, sizeof copy);
	memcpy(norm, copy[7].mlp_norm.data, sizeof norm);
	norm[100] ^= 1;
	copy[7].mlp_norm.data = norm;
	const struct block_weights* kept = model->weights.block;
	memcpy(a, model->fingerprint, 65);
	model->weights.block = copy;
	model_fingerprint(model);
	assert_string_not_equal(a, model->fingerprint);
	norm[100] ^= 1;
	model_fingerprint(model);
	assert_string_equal(a, model->fingerprint);
	model->weights.block = kept;
	model_close(model);
}

static void refused(void** state) {
	(void)state;
	static const char* const spec[] = {"",       "/no/such/model",     "/dev/null", "/etc/passwd",
	                                   "synth:", "synth:no-such-shape"};
	for (size_t i = 0; i < sizeof spec / sizeof *spec; i++) {
		struct error error = {""};
		assert_null(model_open(spec[i], NULL, &error));
		assert_true(strlen(error.message) > 10);
	}
}

int main(void) {
	if (!getenv("SWIFTLET_SOURCE")) {
		printf("skipped: SWIFTLET_SOURCE is not set to the source tree\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sha256),          cmocka_unit_test(builtin),
	    cmocka_unit_test(names),           cmocka_unit_test(generation_config),
	    cmocka_unit_test(gguf_by_content), cmocka_unit_test(tied_in_words_alone),
	    cmocka_unit_test(split_set),       cmocka_unit_test(hub),
	    cmocka_unit_test(gguf_folders),    cmocka_unit_test(fingerprints),
	    cmocka_unit_test(refused),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
