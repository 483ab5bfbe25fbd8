/* swiftlet run: one prompt, its text as it is accepted, and the figures. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/decode/lone.h"
#include "tools/program/command.h"
#include "tools/program/completion.h"
#include "tools/program/draw_mask.h"
#include "tools/program/interrupt.h"
#include "tools/program/runtime.h"

struct run_command {
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
	FILE* trace;    /* NULL: none is wanted */
	int64_t rounds; /* written to it */
};

static bool tokens_of(const struct run_command* run, const char* text, size_t size, struct token_list* tokens,
                      struct error* error) {
	if (!run->chat)
		return prompt_tokens(run->runtime.model, text, size, run->no_special, tokens, error);
	struct chat_message message[2];
	int n_messages = 0;
	if (run->system)
		message[n_messages++] = (struct chat_message){"system", run->system, strlen(run->system)};
	message[n_messages++] = (struct chat_message){"user", text, size};
	return chat_tokens(run->runtime.model, message, n_messages, run->variables, tokens, error);
}

/* Reads --expect's file, if one was given. False with the error set. */
static bool read_expected(const struct run_command* run, struct token_list* tokens, struct error* error) {
	size_t size;
	char* const text = run->expect_file ? read_whole(run->expect_file, &size, error) : NULL;
	const bool good =
	    !run->expect_file || (text && expected_tokens(run->runtime.model, text, size, tokens, error));
	free(text);
	return good;
}

/* ---- the trace ------------------------------------------------------------------------------ */

/* The rounds of a generation as JSON lines, for comparison with references and for looking at:
 *
 *     {"round", "position", "root", "draft": [token…], "probability": […], "stop",
 *      "rows": [[token, parent]…], "accepted", "bonus"}
 *
 * position: of the root, the last token emitted before the round, in prompt and text; draft: the chain of
 * first choices with their probabilities; stop: why it ended (steps, threshold, end of text, limit of what
 * may be emitted, or that drafting was planned); rows: the verified tree, root first. */
static void trace_step(void* user) {
	struct run_command* const run = user;
	FILE* const out = run->trace;
	struct round_trace t;
	session_trace(run->runtime.session, &t);
	if (t.round <= run->rounds)
		return;
	fprintf(out, "{\"round\": %" PRId64 ", \"position\": %d, \"root\": %" PRId32 ", \"draft\": [",
	        run->rounds++, t.position, t.tree->token[0]);
	for (int i = 0; i < t.steps; i++)
		fprintf(out, "%s%" PRId32, i > 0 ? ", " : "", t.step[i].token);
	fputs("], \"probability\": [", out);
	for (int i = 0; i < t.steps; i++)
		fprintf(out, "%s%.6g", i > 0 ? ", " : "", (double)t.step[i].max_probability);
	fprintf(out, "], \"stop\": \"%s\", \"rows\": [", t.why);
	for (int i = 0; i < t.tree->n; i++)
		fprintf(out, "%s[%" PRId32 ", %" PRId32 "]", i > 0 ? ", " : "", t.tree->token[i], t.tree->parent[i]);
	fprintf(out, "], \"accepted\": %d, \"bonus\": %" PRId32 "}\n", t.accepted, t.bonus);
}

static bool trace_open(struct run_command* run, struct error* error) {
	run->trace = run->trace_file ? fopen(run->trace_file, "w") : NULL;
	return !run->trace_file || run->trace ||
	       error_set(error, "%s could not be written: %s", run->trace_file, strerror(errno));
}

static int trace_close(struct run_command* run, int status) {
	const bool written = !run->trace || ferror(run->trace) == 0;
	if (run->trace && (fclose(run->trace) != 0 || !written))
		return complain(STATUS_FAILED, "%s could not be written: %s", run->trace_file, strerror(errno));
	return status;
}

/* ---- the text ------------------------------------------------------------------------------- */

static void print_json(const struct run_command* run, const struct completion* g) {
	char* const text = completion_report(g, &run->runtime, NULL, run->task);
	if (text)
		puts(text);
	free(text);
}

static void print_figures(const struct run_command* run, const struct completion* g) {
	const struct swiftlet_figures* const f = &g->figures;
	fputc('\n', stderr);
	runtime_print(stderr, &run->runtime);
	figures_print(stderr, f, run->runtime.options.method);
	if (f->n_attention + f->n_mlp + f->n_quantized_attention + f->n_quantized_mlp > 0)
		draw_figures(stderr, f, run->runtime.model->weights.shape.n_blocks);
}

static int finish_run(const struct run_command* run, struct completion* g) {
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
	const bool saved = runtime_save_mask(&run->runtime, &g->figures, run->task, g->figures.tokens);
	return saved ? STATUS_DONE : STATUS_FAILED;
}

static int generate_text(struct run_command* run, const char* text, size_t size) {
	struct error error = {{0}};
	struct token_list prompt = {0}, expected = {0};
	struct completion g = {.show = run->json ? NULL : stdout, .watch = run->runtime.watch};
	bool good = tokens_of(run, text, size, &prompt, &error) && read_expected(run, &expected, &error) &&
	            trace_open(run, &error);
	if (good) {
		struct swiftlet_request request =
		    request_for(&run->runtime.options, prompt.id, prompt.n, run->max_tokens, run->task);
		request.stop = run->stop.text;
		request.n_stop = run->stop.n;
		request.expected = expected.id;
		request.n_expected = expected.n;
		g.on_step = run->trace ? trace_step : NULL;
		g.on_user = run;
		interrupt_watch();
		good = completion_run(&g, run->runtime.session, &request, &error);
	}
	const int status = good ? finish_run(run, &g) : complain(STATUS_FAILED, "%s", error.message);
	completion_free(&g);
	token_list_free(&expected);
	token_list_free(&prompt);
	return trace_close(run, status);
}

int command_run(int argc, char** argv) {
	struct run_command run = {.max_tokens = 128};
	const struct command_option option[] = {
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
	    RUNTIME_OPTIONS(run.runtime.wish),
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
	    .session = &run.runtime.options,
	    .max_words = 1,
	};
	int status = options_parse_model(&line, argc, argv, &run.runtime.wish.model);
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
	status = runtime_open(&run.runtime);
	if (status == OPTIONS_GO_ON)
		status = generate_text(&run, run.prompt ? run.prompt : file_text, size);
	free(file_text);
	return runtime_close(&run.runtime, status);
}
