/* swiftlet run: one prompt, its text as it is accepted, and the figures. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/program/command.h"
#include "tools/program/draw_mask.h"
#include "tools/program/generation.h"
#include "tools/program/interrupt.h"
#include "tools/program/runtime.h"
#include "tools/program/trace.h"

struct run {
	struct runtime_wish wish;
	const char* prompt;
	const char* prompt_file;
	const char* expect_file;
	const char* system;
	const char* variables; /* chat_template_kwargs */
	const char* task;
	const char* trace_file;
	int max_tokens;
	bool chat, json, no_special;
	struct text_list stop;
	struct runtime runtime;
};

static int32_t* tokens_of(const struct run* run, const char* text, size_t size, int* n, struct error* error) {
	if (!run->chat)
		return prompt_tokens(run->runtime.model, text, size, run->no_special, n, error);
	struct chat_message message[2];
	int n_messages = 0;
	if (run->system)
		message[n_messages++] = (struct chat_message){"system", run->system, strlen(run->system)};
	message[n_messages++] = (struct chat_message){"user", text, size};
	return chat_tokens(run->runtime.model, message, n_messages, run->variables, n, error);
}

static void print_json(const struct run* run, const struct generation* g) {
	char* const text = generation_report(g, &run->runtime, NULL, run->task);
	if (text)
		puts(text);
	free(text);
}

static void print_figures(const struct run* run, const struct generation* g) {
	const struct swiftlet_figures* const f = &g->figures;
	fputc('\n', stderr);
	runtime_print(stderr, &run->runtime);
	figures_print(stderr, f, run->runtime.options.method);
	if (f->n_attention + f->n_mlp + f->n_low_attention + f->n_low_mlp > 0)
		draw_figures(stderr, f, run->runtime.model->weights.shape.n_blocks);
}

static int finish(const struct run* run, struct generation* g) {
	g->figures.seconds.load = run->runtime.load_seconds;
	const bool terminal = isatty(STDOUT_FILENO);
	if (run->json)
		print_json(run, g);
	else if (terminal)
		putchar('\n');
	if (output_written(STATUS_DONE) != STATUS_DONE)
		return STATUS_FAILED;
	if (!run->json && (terminal || g->figures.stop == SWIFTLET_CANCELLED))
		print_figures(run, g);
	const bool saved =
	    runtime_save_mask(&run->runtime, &run->wish, &g->figures, run->task, g->figures.tokens);
	return saved ? STATUS_DONE : STATUS_FAILED;
}

/* Of --expect's file; *n = 0 where there is none. False with the error set. */
static bool read_expected(const struct run* run, int32_t** id, int* n, struct error* error) {
	size_t size;
	*id = NULL;
	*n = 0;
	if (!run->expect_file)
		return true;
	char* const text = read_whole(run->expect_file, &size, error);
	if (text && size > 0)
		*id = expected_tokens(run->runtime.model, text, size, n, error);
	const bool good = text && (size == 0 || *id);
	free(text);
	return good;
}

static int generate(struct run* run, const char* text, size_t size) {
	struct error error = {{0}};
	struct swiftlet_request request;
	int n = 0;
	int32_t* const prompt = tokens_of(run, text, size, &n, &error);
	int32_t* expected = NULL;
	int n_expected = 0;
	if (!prompt || !read_expected(run, &expected, &n_expected, &error)) {
		free(prompt);
		return complain(STATUS_FAILED, "%s", error.message);
	}
	request = request_for(&run->runtime.options, prompt, n, run->max_tokens, run->task);
	request.stop = run->stop.text;
	request.n_stop = run->stop.n;
	request.expected = expected;
	request.n_expected = n_expected;
	struct generation g = {.show = run->json ? NULL : stdout, .watch = run->runtime.watch};
	struct trace trace;
	if (run->trace_file && !trace_open(&trace, run->trace_file, run->runtime.session, &error)) {
		free(expected);
		free(prompt);
		return complain(STATUS_FAILED, "%s", error.message);
	}
	if (run->trace_file) {
		g.on_step = trace_step;
		g.on_user = &trace;
	}
	interrupt_watch();
	const bool good = generation_run(&g, run->runtime.session, &request, &error);
	int status = good ? finish(run, &g) : complain(STATUS_FAILED, "%s", error.message);
	if (run->trace_file && !trace_close(&trace, &error))
		status = complain(STATUS_FAILED, "%s", error.message);
	generation_free(&g);
	free(expected);
	free(prompt);
	return status;
}

int command_run(int argc, char** argv) {
	const double started = seconds_now();
	struct run run = {.max_tokens = 128};
	struct swiftlet_options options;
	const struct option option[] = {
	    TEXT("prompt", 'p', "TEXT", "the prompt", &run.prompt),
	    TEXT("expect", 0, "FILE", "a text that the output is expected to follow", &run.expect_file),
	    TEXT("file", 'f', "FILE", "read the prompt from a file (-: standard input)", &run.prompt_file),
	    COUNT("max-tokens", 'n', "N", "tokens to generate at most (128)", &run.max_tokens, 1, 1 << 20),
	    FLAG("chat", "put the prompt through the model's chat template", &run.chat),
	    TEXT("system", 0, "TEXT", "with --chat: the system message", &run.system),
	    TEXT("chat-template-kwargs", 0, "JSON",
	         "with --chat: variables for its template,\n{\"enable_thinking\": false}…", &run.variables),
	    LIST("stop", 0, "S", "end before this text; may be repeated", &run.stop),
	    FLAG("json", "print one JSON object instead of the text", &run.json),
	    TEXT("task", 0, "NAME", "label of the task, for the report and the mask", &run.task),
	    TEXT("trace", 0, "FILE", "a JSON line a round: what was drafted, why that ended, what came of it",
	         &run.trace_file),
	    FLAG("no-special", "special tokens written in the prompt are plain text", &run.no_special),
	    RUNTIME_OPTIONS(run.wish),
	};
	struct command_line line = {
	    .name = "run",
	    .usage = "[MODEL|-m MODEL] (-p TEXT | -f FILE) [options]",
	    .about =
	        "Continues one prompt. Text is printed as it is accepted; on a terminal the figures follow.\n"
	        "The text is the one plain decoding gives (--method vanilla), in fewer full passes.\n"
	        "Ctrl-C ends the generation and still prints the figures.",
	    .examples = "  swiftlet run -p $'Question: Tom has 3 apples and buys 4. How many has he?\\nAnswer:'\n"
	                "  swiftlet run ~/models/llama-3-8b.gguf --chat -p 'Why is the sky blue?' -n 200\n"
	                "  swiftlet run -f story.txt --temp 0.8 --top-p 0.95 --seed 7 --json",
	    OPTIONS(option),
	    .session = &options,
	    .max_words = 1,
	};
	int status = options_parse_model(&line, argc, argv, &run.wish.model);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!run.prompt == !run.prompt_file)
		return complain(STATUS_USAGE, "run: %s (swiftlet run --help)",
		                run.prompt ? "both -p and -f were given" : "no prompt: give -p TEXT or -f FILE");
	if (run.system && !run.chat)
		return complain(STATUS_USAGE, "run: --system needs --chat");
	for (int i = 0; i < run.stop.n; i++)
		if (!run.stop.text[i][0])
			return complain(STATUS_USAGE, "run: --stop is empty");
	struct error error = {{0}};
	size_t size = run.prompt ? strlen(run.prompt) : 0;
	char* const file_text = run.prompt ? NULL : read_whole(run.prompt_file, &size, &error);
	if (!run.prompt && !file_text)
		return complain(STATUS_FAILED, "%s", error.message);
	status = runtime_open(&run.runtime, &run.wish, &options, started);
	if (status == OPTIONS_GO_ON)
		status = generate(&run, run.prompt ? run.prompt : file_text, size);
	free(file_text);
	return runtime_close(&run.runtime, status);
}
