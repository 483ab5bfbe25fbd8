/* swiftlet chat: a conversation, each answer shown as it is accepted. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/decode/session.h"
#include "core/files/grow.h"
#include "optimizer/idle.h"
#include "streams/memory/memory.h"
#include "tools/program/command.h"
#include "tools/program/completion.h"
#include "tools/program/draw_mask.h"
#include "tools/program/interrupt.h"
#include "tools/program/runtime.h"

struct chat {
	const char* system;
	const char* variables; /* chat_template_kwargs */
	int max_tokens;
	struct text_list stop;
	struct runtime runtime;
	struct chat_message* message; /* (n) contents malloc'd */
	int n;
	struct completion completion;
	int64_t tokens;
	int turns;
	bool terminal;
	struct idle_runner* idle; /* NULL: nothing was learned yet between two answers */
	double answered, learned; /* seconds */
};

/* ---- history -------------------------------------------------------------------------------- */

static bool remember_message(struct chat* chat, const char* role, const char* text, size_t size) {
	char* const content =
	    grow_by_one(&chat->message, (size_t)chat->n, sizeof *chat->message) ? malloc(size + 1) : NULL;
	if (!content)
		return false;
	if (size)
		memcpy(content, text, size);
	content[size] = 0;
	chat->message[chat->n++] = (struct chat_message){role, content, size};
	return true;
}

/* Forgets messages [from, from + n). */
static void forget_messages(struct chat* chat, int from, int n) {
	for (int i = from; i < from + n; i++)
		free((void*)(uintptr_t)chat->message[i].content);
	if (chat->n > from + n)
		memmove(chat->message + from, chat->message + from + n,
		        (size_t)(chat->n - from - n) * sizeof *chat->message);
	chat->n -= n;
}

static int first_turn(const struct chat* chat) {
	return chat->n > 0 && strcmp(chat->message[0].role, "system") == 0 ? 1 : 0;
}

/* The conversation's ids; the oldest turns are forgotten until it leaves room for an answer. */
static bool fitting_tokens(struct chat* chat, struct token_list* tokens, struct error* error) {
	const int context = options_context(&chat->runtime.options, chat->runtime.model);
	for (bool reported = false;; reported = true) {
		tokens->n = 0;
		if (!chat_tokens(chat->runtime.model, chat->message, chat->n, chat->variables, tokens, error))
			return false;
		const int start = first_turn(chat);
		if (tokens->n + chat->max_tokens / 4 < context || chat->n - start < 3)
			return true;
		if (!reported)
			fprintf(stderr, "(the context is full: the oldest turns are forgotten)\n");
		forget_messages(chat, start, 2);
	}
}

/* ---- one turn ------------------------------------------------------------------------------- */

static bool answer_message(struct chat* chat, const char* text, size_t size, struct error* error) {
	if (!remember_message(chat, "user", text, size))
		return error_set(error, "out of memory");
	struct token_list prompt = {0};
	bool good = fitting_tokens(chat, &prompt, error);
	if (good) {
		struct swiftlet_request request =
		    request_for(&chat->runtime.options, prompt.id, prompt.n, chat->max_tokens, "chat");
		request.stop = chat->stop.text;
		request.n_stop = chat->stop.n;
		chat->completion.show = stdout;
		chat->completion.watch = chat->runtime.watch;
		interrupt_watch();
		good = completion_run(&chat->completion, chat->runtime.session, &request, error);
	}
	token_list_free(&prompt);
	if (!good) {
		forget_messages(chat, chat->n - 1, 1);
		return false;
	}
	putchar('\n');
	if (chat->terminal && chat->completion.figures.stop == SWIFTLET_LENGTH)
		printf("(cut off after %d tokens; -n N allows more)\n", chat->completion.figures.tokens);
	chat->turns++;
	chat->tokens += chat->completion.figures.tokens;
	interrupt_watch();
	return remember_message(chat, "assistant", chat->completion.text.data, chat->completion.text.size) ||
	       error_set(error, "out of memory");
}

static void print_stats(const struct chat* chat) {
	if (chat->turns == 0) {
		puts("There was no answer yet.");
		return;
	}
	struct swiftlet_figures figures = chat->completion.figures;
	figures.seconds.load = chat->runtime.load_seconds;
	figures_print(stdout, &figures, chat->runtime.options.method);
	printf("%d answer%s, %" PRId64 " tokens; the KV cache still held %d tokens of the last prompt\n",
	       chat->turns, chat->turns == 1 ? "" : "s", chat->tokens, figures.cached_tokens);
}

static void print_mask(struct chat* chat) {
	struct swiftlet_figures f;
	swiftlet_session_figures(chat->runtime.session, &f);
	draw_figures(stdout, &f, chat->runtime.model->weights.shape.n_blocks);
	const char* const status =
	    session_search(chat->runtime.session) ? idle_status(chat->runtime.session) : NULL;
	if (status)
		puts(status);
}

/* A line that begins with '/'. False: the conversation ends. */
static bool run_chat_command(struct chat* chat, const char* line) {
	static const char* const known[] = {"/help", "/mask", "/stats", "/reset", "/quit"};
	if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
		return false;
	if (strcmp(line, "/help") == 0) {
		puts("/reset   forget the conversation (what was learned stays)\n"
		     "/stats   figures of the last answer\n/mask    the layers that drafts skip\n"
		     "/quit    end the program, as Ctrl-D does; Ctrl-C ends an answer\n"
		     "A line that begins with two slashes is sent with one.");
	} else if (strcmp(line, "/mask") == 0) {
		print_mask(chat);
	} else if (strcmp(line, "/stats") == 0) {
		print_stats(chat);
	} else if (strcmp(line, "/reset") == 0) {
		const int start = first_turn(chat);
		forget_messages(chat, start, chat->n - start);
		puts("The conversation is forgotten.");
	} else {
		const char* const near = nearest_name(line, known, 5);
		printf("no command %s; %s%s\n", line, near ? "did you mean " : "/help lists them", near ? near : "");
	}
	return true;
}

/* ---- the conversation ----------------------------------------------------------------------- */

static bool line_waits(void* user) {
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	(void)user;
	return poll(&input, 1, 0) != 0;
}

/* While the user thinks and types, the search goes on, pass by pass, until a line is there, or as long as
 * answers took, or as it brings something. */
static void search_idly(struct chat* chat) {
	swiftlet_session* const session = chat->runtime.session;
	const struct swiftlet_options* o = &chat->runtime.options;
	struct idle_progress progress = {.search = NULL};
	struct session_work work;
	struct error ignored;
	bool any = false;
	if (!chat->terminal || !(o->idle_learning > 0) || !session_search(session))
		return;
	if (!chat->idle)
		chat->idle = idle_open(chat->runtime.engine, &ignored);
	while (chat->idle && !line_waits(NULL) && chat->learned < o->idle_learning * fmax(chat->answered, 1e-9) &&
	       idle_goes_on(&progress, session_search(session), o->patience) &&
	       session_next_idle(session, &work) &&
	       idle_run(chat->idle, session, &work, line_waits, NULL, &chat->learned))
		any = true;
	if (any && chat->runtime.watch)
		memory_idle(chat->runtime.watch);
}

/* Lines until the end; the exit status. */
static int read_messages(struct chat* chat) {
	char* line = NULL;
	size_t capacity = 0;
	int status = STATUS_DONE;
	struct error error = {{0}};
	interrupt_watch();
	for (;;) {
		if (chat->terminal)
			fputs("> ", stdout);
		fflush(stdout);
		search_idly(chat);
		interrupt_input(true);
		const ssize_t size = getline(&line, &capacity, stdin);
		interrupt_input(false);
		if (size < 0)
			break;
		size_t length = (size_t)size;
		while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
			line[--length] = 0;
		if (length == 0)
			continue;
		const bool command = line[0] == '/' && line[1] != '/';
		if (command && !run_chat_command(chat, line))
			break;
		const size_t skip = line[0] == '/' ? 1 : 0;
		if (!command && !answer_message(chat, line + skip, length - skip, &error)) {
			status = complain(STATUS_FAILED, "%s", error.message);
			if (!chat->terminal)
				break;
		}
		if (!command)
			chat->answered +=
			    chat->completion.figures.seconds.prefill + chat->completion.figures.seconds.decode;
		if (ferror(stdout)) {
			status = complain(STATUS_FAILED, "standard output could not be written");
			break;
		}
	}
	if (chat->terminal) {
		putchar('\n');
		status = STATUS_DONE;
	}
	free(line);
	return status;
}

static int start_chat(struct chat* chat) {
	struct error error = {{0}};
	if (!chat_template_check(model_chat_template(chat->runtime.model, false), &error))
		return complain(STATUS_FAILED, "%s", error.message);
	if (chat->system && !remember_message(chat, "system", chat->system, strlen(chat->system)))
		return complain(STATUS_FAILED, "out of memory");
	chat->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	if (chat->terminal) {
		setvbuf(stdin, NULL, _IONBF, 0); /* so that poll() sees every line that was typed ahead */
		runtime_print(stdout, &chat->runtime);
		puts("/help lists the commands.");
	}
	int status = read_messages(chat);
	if (chat->turns && !runtime_save_mask(&chat->runtime, &chat->completion.figures, "chat", chat->tokens))
		status = STATUS_FAILED;
	return status;
}

int command_chat(int argc, char** argv) {
	struct chat chat = {.max_tokens = 256};
	const struct command_option option[] = {
	    TEXT("system", 0, "TEXT", "the system message", &chat.system),
	    COUNT("max-tokens", 'n', "N", "generate at most N tokens an answer", &chat.max_tokens, 1, 1 << 20),
	    LIST("stop", 0, "TEXT", "end an answer before this text; may be repeated", &chat.stop),
	    MODEL_OPTION(chat.runtime.wish),
	    MORE_OPTIONS,
	    TEXT("chat-template-kwargs", 0, "JSON",
	         "variables of the chat template, such as\n{\"enable_thinking\": false}", &chat.variables),
	    RUNTIME_OPTIONS(chat.runtime.wish),
	};
	struct command_line line = {
	    .name = "chat",
	    .usage = "MODEL [--system TEXT] [options]",
	    .about =
	        "Holds a conversation in the terminal, or with the lines of a pipe. /help lists the commands.\n"
	        "Ctrl-C ends an answer, Ctrl-D the conversation.",
	    .examples = "  swiftlet chat smollm2-135m\n"
	                "  swiftlet chat model.gguf --system \"Answer in one sentence.\" --temp 0.7\n"
	                "  printf 'What is 2 + 3?\\n/stats\\n' | swiftlet chat model.gguf",
	    OPTIONS(option),
	    .session = &chat.runtime.options,
	    .max_words = 1,
	};
	int status = options_parse_model(&line, argc, argv, &chat.runtime.wish.model);
	if (status != OPTIONS_GO_ON)
		return status;
	status = runtime_open(&chat.runtime);
	if (status == OPTIONS_GO_ON)
		status = start_chat(&chat);
	forget_messages(&chat, 0, chat.n);
	free(chat.message);
	completion_free(&chat.completion);
	idle_close(chat.idle);
	return runtime_close(&chat.runtime, status);
}
