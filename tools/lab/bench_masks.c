/* Masks of grammars on a real vocabulary: of schemas with texts, which schemas compile, which texts are
 * taken, and how long compiling and each mask take. tools/peers/masks.py makes the file and runs other
 * libraries on it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/json.h"
#include "core/grammar/acceptor.h"
#include "kernels/clock.h"
#include "tools/lab/bench.h"

struct masks_bench {
	const struct token_trie* trie;
	const struct tokenizer* tokenizer;
	int32_t end_token;
	FILE* answers; /* or NULL */
	bool literal;
	int schemas, compiled, right, invalid_taken, valid_not_taken;
	double* mask; /* (n_masks) seconds of each */
	size_t n_masks;
	double* compile; /* (compiled) seconds of each */
	double open;     /* seconds of opening the automata, all together */
};

static size_t piece_of(void* user, int32_t token, char* out, size_t capacity) {
	return tokenizer_piece(user, token, false, out, capacity);
}

/* Feeds the tokens and times each mask with the step that follows it. As a service does, it asks for the mask
 * of the text so far before each token. *taken: the whole text may end there. */
static bool feed_text(struct masks_bench* b, struct acceptor* a, const struct token_list* ids, bool* taken) {
	acceptor_start(a);
	bool alive = true;
	for (int i = 0; i < ids->n && alive; i++) {
		if (!grow_by_one(&b->mask, b->n_masks, sizeof *b->mask))
			return false;
		const double began = seconds_now();
		alive = acceptor_root(a) != ACCEPTOR_DEAD && acceptor_take(a, ids->id[i]);
		b->mask[b->n_masks++] = seconds_now() - began;
	}
	const int root = alive ? acceptor_root(a) : ACCEPTOR_DEAD;
	*taken = root != ACCEPTOR_DEAD && token_is_allowed(acceptor_allowed(a, root), b->end_token);
	return true;
}

static bool run_texts(struct masks_bench* b, struct acceptor* a, const cJSON* texts, cJSON* out) {
	const cJSON* one;
	cJSON* const list = cJSON_AddArrayToObject(out, "texts");
	bool all_right = true;
	cJSON_ArrayForEach (one, texts) {
		const cJSON* text = json_field(one, "text");
		const bool valid = cJSON_IsTrue(json_field(one, "valid"));
		struct token_list ids = {0};
		bool taken = false;
		if (!cJSON_IsString(text) || !tokenizer_encode(b->tokenizer, text->valuestring,
		                                               strlen(text->valuestring), TOKENIZE_NO_SPECIAL, &ids))
			return false;
		const bool good = !a || feed_text(b, a, &ids, &taken);
		all_right &= taken == valid;
		b->invalid_taken += a && taken && !valid;
		b->valid_not_taken += a && !taken && valid;
		cJSON* const reported = cJSON_CreateObject();
		cJSON_AddBoolToObject(reported, "taken", taken);
		cJSON_AddItemToObject(reported, "tokens", cJSON_CreateIntArray(ids.id, ids.n));
		cJSON_AddItemToArray(list, reported);
		token_list_free(&ids);
		if (!good)
			return false;
	}
	b->right += a && all_right;
	return true;
}

/* One line of the file. False with the error set where it is no such line, or on no memory. */
static bool run_schema(struct masks_bench* b, const cJSON* one, struct error* error) {
	char* const schema = json_print(json_field(one, "schema"));
	cJSON* const out = cJSON_CreateObject();
	struct error refused = {""};
	const double began = seconds_now();
	struct grammar* const grammar =
	    schema ? grammar_from_json_schema(schema, strlen(schema), b->literal, &refused) : NULL;
	const double compiled = seconds_now();
	struct acceptor* const a = grammar ? acceptor_open(grammar, b->trie, &b->end_token, 1) : NULL;
	const size_t before = b->n_masks;
	bool good = schema && (!grammar || (a && grow_by_one(&b->compile, (size_t)b->compiled, sizeof(double))));
	b->schemas++;
	if (good && grammar) {
		b->open += seconds_now() - compiled;
		b->compile[b->compiled++] = compiled - began;
	} else if (good) {
		cJSON_AddStringToObject(out, "error", refused.message);
	}
	good = good && run_texts(b, a, json_field(one, "texts"), out);
	double seconds = 0, greatest = 0;
	for (size_t i = before; i < b->n_masks; i++) {
		seconds += b->mask[i];
		greatest = b->mask[i] > greatest ? b->mask[i] : greatest;
	}
	cJSON_AddNumberToObject(out, "masks", (double)(b->n_masks - before));
	cJSON_AddNumberToObject(out, "mask_us", 1e6 * seconds);
	cJSON_AddNumberToObject(out, "greatest_mask_us", 1e6 * greatest);
	char* const line = b->answers ? cJSON_PrintUnformatted(out) : NULL;
	if (line)
		fprintf(b->answers, "%s\n", line);
	free(line);
	cJSON_Delete(out);
	acceptor_close(a);
	grammar_free(grammar);
	free(schema);
	return good ||
	       error_set(error, "line %d has no \"schema\" with \"texts\", or there is no memory", b->schemas);
}

static bool run_file(struct masks_bench* b, FILE* file, struct error* error) {
	char* line = NULL;
	size_t capacity = 0;
	ssize_t size;
	bool good = true;
	while (good && (size = getline(&line, &capacity, file)) >= 0) {
		cJSON* const one = json_parse(line, (size_t)size, "the file", error);
		good = one && run_schema(b, one, error);
		cJSON_Delete(one);
	}
	free(line);
	return good;
}

static void add_spread(cJSON* out, const char* name, double* seconds, size_t n) {
	static const struct {
		const char* name;
		double share;
	} at[] = {{"median", .5}, {"p99", .99}, {"greatest", 1}};
	char key[64];
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += seconds[i];
	snprintf(key, sizeof key, "%s_us", name);
	cJSON_AddNumberToObject(out, key, n ? 1e6 * sum / (double)n : NAN);
	if (n)
		qsort(seconds, n, sizeof *seconds, bench_ascending);
	for (size_t i = 0; i < sizeof at / sizeof *at && n; i++) {
		snprintf(key, sizeof key, "%s_us_%s", name, at[i].name);
		cJSON_AddNumberToObject(out, key, 1e6 * seconds[(size_t)(at[i].share * (double)(n - 1))]);
	}
}

static cJSON* report_masks(struct masks_bench* b) {
	cJSON* const out = cJSON_CreateObject();
	const struct {
		const char* name;
		int value;
	} count[] = {{"vocabulary", b->trie->vocab},      {"schemas", b->schemas},
	             {"compiled", b->compiled},           {"all_right", b->right},
	             {"invalid_taken", b->invalid_taken}, {"valid_not_taken", b->valid_not_taken}};
	for (size_t i = 0; i < sizeof count / sizeof *count; i++)
		cJSON_AddNumberToObject(out, count[i].name, count[i].value);
	cJSON_AddNumberToObject(out, "masks", (double)b->n_masks);
	add_spread(out, "mask", b->mask, b->n_masks);
	add_spread(out, "compile", b->compile, (size_t)b->compiled);
	cJSON_AddNumberToObject(out, "open_us", b->compiled ? 1e6 * b->open / b->compiled : NAN);
	return out;
}

int bench_masks_main(int argc, char** argv) {
	const char *spec = "builtin", *input = NULL, *answers = NULL;
	bool json = false, literal = false;
	const struct command_option option[] = {
	    TEXT("model", 'm', "MODEL",
	         "the model whose vocabulary is used (builtin); a GGUF file with only a vocabulary is enough",
	         &spec),
	    TEXT("input", 'i', "FILE", "lines {\"schema\", \"texts\": [{\"text\", \"valid\"}]}", &input),
	    TEXT("answers", 0, "FILE", "write the result for each schema to this file, with the texts' tokens",
	         &answers),
	    FLAG("literal-schemas",
	         "allow values that a schema leaves open, as --literal-schemas of swiftlet serve does", &literal),
	    FLAG("json", "print one JSON object instead of a table", &json)};
	struct command_line line = {.name = "bench masks",
	                            .usage = "[-m MODEL] -i FILE [--answers FILE] [options]",
	                            .about =
	                                "Compiles schemas and times the masks of texts that keep or break them.",
	                            OPTIONS(option),
	                            .max_words = 1};
	const int status = options_parse_model(&line, argc, argv, &spec);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!input)
		return complain(STATUS_USAGE, "bench masks: -i FILE is missing");
	struct error error = {{0}};
	const struct model_options options = {.vocabulary_only = true};
	struct model* const model = model_open(spec, &options, &error);
	struct token_trie* const trie =
	    model ? token_trie_open(model->weights.shape.vocab, piece_of, model->tokenizer) : NULL;
	struct masks_bench b = {.trie = trie, .literal = literal};
	FILE* const file = trie ? fopen(input, "r") : NULL;
	b.answers = file && answers ? fopen(answers, "w") : NULL;
	bool good = file && (!answers || b.answers);
	if (trie && !good)
		error_set(&error, "cannot open %s: %s", file ? answers : input, strerror(errno));
	if (good) {
		b.tokenizer = model->tokenizer;
		b.end_token = tokenizer_eos(model->tokenizer);
		good = run_file(&b, file, &error);
	}
	const int outcome =
	    good ? report_print(report_masks(&b), json) : complain(STATUS_FAILED, "%s", error.message);
	if (file)
		fclose(file);
	if (b.answers)
		fclose(b.answers);
	free(b.mask);
	free(b.compile);
	token_trie_free(trie);
	model_close(model);
	return outcome;
}
