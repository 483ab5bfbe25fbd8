/* swiftlet run: answers one prompt, prints the text as it is accepted, and then the figures. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/decode/session.h"
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
	bool chat, raw, json, no_special, verbose, model_given;
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

/* Writes a generation's rounds as JSON lines, to compare with references and to look at:
 *
 *    {"round", "position", "root", "draft": [token…], "probability": […], "stop",
 *     "rows": [[token, parent]…], "accepted", "bonus"}
 *
 * position: of the root, the last token before the round, in prompt and text; draft: the chain of first
 * choices with their probabilities; stop: why it ended (steps, threshold, end of text, limit of what may be
 * emitted, or planned); rows: the verified tree, root first. */
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
	if (!run->json)
		fputc('\n', stderr);
	if (!run->verbose) {
		speed_print(stderr, f, "-n N allows more");
		return;
	}
	runtime_print(stderr, &run->runtime);
	figures_print(stderr, f, run->runtime.options.drafting.method);
	if (f->draft_steps > 0 && f->n_attention + f->n_mlp + f->n_quantized_attention + f->n_quantized_mlp > 0)
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
	if (run->verbose || (!run->json && (terminal || g->figures.stop == SWIFTLET_CANCELLED)))
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

/* ---- the prompt ----------------------------------------------------------------------------- */

/* The built-in and synthetic models continue a text: their templates only serve tests. */
static bool continues_text(const char* model) {
	return strcmp(model, "builtin") == 0 || strncmp(model, "synth:", 6) == 0;
}

/* An instruction model that is prompted without its template often ends at once. */
static bool wants_template(const struct run_command* run, size_t prompt_size) {
	return run->chat || run->system || run->runtime.wish.chat_template ||
	       (!run->raw && prompt_size > 0 && !continues_text(run->runtime.wish.model) &&
	        model_chat_template(run->runtime.model, false));
}

/* Reads MODEL and PROMPT from the words; -m may give the model. False with the message printed. */
static bool read_words(struct run_command* run, const struct command_line* line) {
	const int first = run->runtime.wish.model ? 0 : 1;
	if (first == 1 && line->n_words > 0 && strchr(line->word[0], ' ') && access(line->word[0], F_OK) != 0 &&
	    strncmp(line->word[0], "synth:", 6) != 0) {
		complain(STATUS_USAGE, "run: there is no model \"%s\": swiftlet run MODEL \"PROMPT\"", line->word[0]);
		return false;
	}
	run->model_given = run->runtime.wish.model || line->n_words > 0;
	if (!run->runtime.wish.model)
		run->runtime.wish.model = line->n_words > 0 ? line->word[0] : "builtin";
	if (line->n_words > first + 1) {
		complain(STATUS_USAGE, "run: \"%s\" was not expected: quote a prompt of several words",
		         line->word[first + 1]);
		return false;
	}
	if (line->n_words > first && (run->prompt || run->prompt_file)) {
		complain(STATUS_USAGE, "run: the prompt is given twice, \"%s\" and by %s", line->word[first],
		         run->prompt ? "-p" : "-f");
		return false;
	}
	if (line->n_words > first)
		run->prompt = line->word[first];
	return true;
}

/* The exit status for wrong usage, or OPTIONS_GO_ON. */
static int check_run(const struct run_command* run) {
	if (run->prompt && run->prompt_file)
		return complain(STATUS_USAGE, "run: both -p and -f were given (swiftlet run --help)");
	if (run->raw && (run->chat || run->system))
		return complain(STATUS_USAGE, "run: --raw leaves the chat template out, and %s needs it",
		                run->chat ? "--chat" : "--system");
	if (run->system && !run->chat && continues_text(run->runtime.wish.model))
		return complain(STATUS_USAGE, "run: --system needs --chat with the model %s",
		                run->runtime.wish.model);
	for (int i = 0; i < run->stop.n; i++)
		if (!run->stop.text[i][0])
			return complain(STATUS_USAGE, "run: --stop is empty");
	return OPTIONS_GO_ON;
}

/* The prompt, malloc'd; without one, standard input. NULL with the status set. */
static char* read_prompt(const struct run_command* run, size_t* size, int* status) {
	struct error error = {{0}};
	char* const text = run->prompt ? strdup(run->prompt)
	                               : read_whole(run->prompt_file ? run->prompt_file : "-", size, &error);
	if (run->prompt)
		*size = strlen(run->prompt);
	if (!text) {
		*status = complain(STATUS_FAILED, "%s", run->prompt ? "out of memory" : error.message);
	} else if (*size == 0 && !run->prompt && !run->prompt_file) {
		free(text);
		*status = complain(STATUS_USAGE, "run: no prompt: swiftlet run %s \"PROMPT\" (or -f FILE)",
		                   run->model_given ? run->runtime.wish.model : "MODEL");
		return NULL;
	}
	return text;
}

int command_run(int argc, char** argv) {
	struct run_command run = {.max_tokens = 128};
	const struct command_option option[] = {
	    TEXT("prompt", 'p', "TEXT", "the prompt", &run.prompt),
	    TEXT("file", 'f', "FILE", "read the prompt from a file (-: standard input)", &run.prompt_file),
	    COUNT("max-tokens", 'n', "N", "generate at most N tokens", &run.max_tokens, 1, 1 << 20),
	    TEXT("system", 0, "TEXT", "the system message", &run.system),
	    FLAG("raw", "continue the prompt as it is, without the chat template", &run.raw),
	    LIST("stop", 0, "TEXT", "end before this text; may be repeated", &run.stop),
	    FLAG("json", "print one JSON object instead of the text", &run.json),
	    LETTER_FLAG("verbose", 'v', "print all figures on standard error", &run.verbose),
	    MODEL_OPTION(run.runtime.wish),
	    MORE_OPTIONS,
	    FLAG("chat", "use the chat template, also with the built-in model", &run.chat),
	    TEXT("chat-template-kwargs", 0, "JSON",
	         "variables of the chat template, such as {\"enable_thinking\": false}", &run.variables),
	    TEXT(
	        "expect", 0, "FILE",
	        "a text that the answer is likely to follow, such as a file before\nan edit; drafts come from it",
	        &run.expect_file),
	    FLAG("no-special", "read special tokens that are written in the prompt as plain text",
	         &run.no_special),
	    TEXT("task", 0, "NAME", "a label for the report and the mask", &run.task),
	    TEXT("trace", 0, "FILE", "write a JSON line a round: what was drafted and what was kept",
	         &run.trace_file),
	    RUNTIME_OPTIONS(run.runtime.wish),
	};
	struct command_line line = {
	    .name = "run",
	    .usage = "MODEL [\"PROMPT\"] [options]",
	    .about =
	        "Answers one prompt through the model's chat template, if the model has one. The text is\n"
	        "printed as it is generated; on a terminal a line about its speed follows. Without a prompt,\n"
	        "run reads it from a pipe, or begins a chat on a terminal. Ctrl-C ends the answer.",
	    .examples = "  swiftlet run smollm2-135m \"Why is the sky blue?\"\n"
	                "  swiftlet run model.gguf -f story.txt --raw -n 400 --temp 0.8 --seed 7\n"
	                "  git diff | swiftlet run model.gguf --system \"Write a commit message.\" -c 8192",
	    OPTIONS(option),
	    .session = &run.runtime.options,
	    .max_words = 3,
	};
	int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!read_words(&run, &line))
		return STATUS_USAGE;
	status = check_run(&run);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!run.prompt && !run.prompt_file && !run.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return command_chat(argc, argv);
	size_t size = 0;
	char* const text = read_prompt(&run, &size, &status);
	if (!text)
		return status;
	status = runtime_open(&run.runtime);
	if (status == OPTIONS_GO_ON) {
		run.chat = wants_template(&run, size);
		status = generate_text(&run, text, size);
	}
	free(text);
	return runtime_close(&run.runtime, status);
}
