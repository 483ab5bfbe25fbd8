/* A vocabulary's tokenizer in MB/s: on a given text or one that ships here, and on the runs that slow
 * tokenizers down. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/text/tokenizer.h"
#include "kernels/synth_value.h"
#include "tools/lab/bench.h"

enum { BYTES = 3000000, TIMES = 5 };

static const struct {
	const char* name;
	const char* unit; /* over and over; NULL: drawn */
	uint32_t from, range;
} runs[] = {{"spaces", " ", 0, 0},
            {"line_feeds", "\n", 0, 0},
            {"white_space", " \n  \t\n\n   \r\n\t\t    \n", 0, 0},
            {"one_letter", "a", 0, 0},
            {"one_word", "antidisestablishmentarianism", 0, 0},
            {"letters", NULL, 'a', 26},
            {"digits", NULL, '0', 10},
            {"ideographs", NULL, 0x4E00, 0x51A5},
            {"emoji", NULL, 0x1F600, 0x50}};

static size_t write_character(uint32_t code, char out[4]) {
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	const size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, code >>= 6)
		out[i] = (char)(0x80 | (code & 0x3F));
	out[0] = (char)(0xF00 >> n | code);
	return n;
}

static size_t fill_run(size_t run, char* out) {
	size_t n = 0;
	for (uint64_t i = 0; n + 32 < BYTES; i++) {
		const char* const unit = runs[run].unit;
		if (unit) {
			memcpy(out + n, unit, strlen(unit));
			n += strlen(unit);
		} else {
			n += write_character(runs[run].from + (uint32_t)(synth_mix(i) % runs[run].range), out + n);
		}
	}
	return n;
}

static size_t fill_text(const char* text, size_t size, char* out) {
	size_t n = 0;
	while (n + size < BYTES) {
		memcpy(out + n, text, size);
		n += size;
	}
	return n;
}

/* Of this thread: other programs' work does not count. */
static double processor_seconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool measure_tokenizer(const struct tokenizer* t, const char* name, const char* text, size_t size,
                              cJSON* out) {
	double speed[TIMES];
	for (int i = 0; i < TIMES; i++) {
		struct token_list ids = {0};
		const double began = processor_seconds();
		const bool good = tokenizer_encode(t, text, size, TOKENIZE_NO_SPECIAL, &ids);
		speed[i] = 1e-6 * (double)size / (processor_seconds() - began);
		token_list_free(&ids);
		if (!good)
			return false;
	}
	char key[64];
	snprintf(key, sizeof key, "%s_mb_per_second", name);
	cJSON_AddNumberToObject(out, key, bench_median(speed, TIMES));
	return true;
}

static bool measure_made(const struct tokenizer* t, cJSON* out) {
	char* const text = malloc(BYTES);
	const char* const usual = usual_prompt[0];
	bool good = text && measure_tokenizer(t, "text", text, fill_text(usual, strlen(usual), text), out);
	for (size_t run = 0; good && run < sizeof runs / sizeof *runs; run++)
		good = measure_tokenizer(t, runs[run].name, text, fill_run(run, text), out);
	free(text);
	return good;
}

static bool measure_files(const struct tokenizer* t, const struct text_list* files, cJSON* out,
                          struct error* error) {
	for (int i = 0; i < files->n; i++) {
		size_t size = 0;
		const char* const slash = strrchr(files->text[i], '/');
		char* const text = read_whole(files->text[i], &size, error);
		const bool good = text && measure_tokenizer(t, slash ? slash + 1 : files->text[i], text, size, out);
		free(text);
		if (!good)
			return text ? error_set(error, "out of memory for the texts") : false;
	}
	return true;
}

int bench_tokenize_main(int argc, char** argv) {
	const char* spec = "builtin";
	struct text_list files = {.n = 0};
	bool json = false;
	const struct command_option option[] = {
	    TEXT("model", 'm', "MODEL",
	         "the model whose tokenizer is used (builtin); a GGUF file with only a vocabulary is enough",
	         &spec),
	    LIST("file", 'f', "FILE", "time this text instead of generated ones; may be repeated", &files),
	    FLAG("json", "print one JSON object instead of a table", &json)};
	struct command_line line = {
	    .name = "bench tokenize",
	    .usage = "[-m MODEL] [-f FILE]... [--json]",
	    .about = "Times a tokenizer on text and on runs of white space, letters, digits, ideographs and "
	             "emoji:\nMB/s of processor time, medians of five.",
	    OPTIONS(option),
	    .max_words = 1};
	const int status = options_parse_model(&line, argc, argv, &spec);
	if (status != OPTIONS_GO_ON)
		return status;
	struct error error = {{0}};
	const struct model_options options = {.vocabulary_only = true};
	struct model* const model = model_open(spec, &options, &error);
	cJSON* const out = cJSON_CreateObject();
	bool good = model != NULL;
	if (good && files.n > 0)
		good = measure_files(model->tokenizer, &files, out, &error);
	else if (good)
		good = measure_made(model->tokenizer, out) || error_set(&error, "out of memory for the texts");
	model_close(model);
	if (good)
		return report_print(out, json);
	cJSON_Delete(out);
	return complain(STATUS_FAILED, "%s", error.message);
}
