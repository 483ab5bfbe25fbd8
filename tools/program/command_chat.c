/* swiftlet chat: a conversation, each answer shown as it is accepted. */
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/decode/engine.h"
#include "core/decode/session.h"
#include "optimizer/idle.h"
#include "streams/memory/memory.h"
#include "streams/memory/store.h"
#include "streams/report.h"
#include "tools/program/chat.h"
#include "tools/program/command.h"
#include "tools/program/interrupt.h"

/* ---- one turn ------------------------------------------------------------------------------- */

/* The conversation's ids. The oldest turns are dropped until there is room for an answer. */
static bool fitting_tokens(struct chat* chat, struct token_list* tokens, struct error* error) {
	struct conversation* const c = &chat->conversation;
	const int context = options_context(&chat->runtime.options, chat->runtime.model);
	for (bool reported = false;; reported = true) {
		tokens->n = 0;
		if (!chat_tokens(chat->runtime.model, c->message, c->n, chat->variables, tokens, error))
			return false;
		const int start = conversation_first_turn(c);
		if (tokens->n + chat->max_tokens / 4 < context || c->n - start < 3)
			return true;
		if (!reported)
			fprintf(stderr, "(the context is full: the oldest turns are forgotten)\n");
		conversation_forget(c, start, 2);
	}
}

bool chat_answer(struct chat* chat, struct error* error) {
	struct completion* const g = &chat->completion;
	struct token_list prompt = {0};
	bool good = fitting_tokens(chat, &prompt, error);
	if (good) {
		struct swiftlet_request request =
		    request_for(&chat->runtime.options, prompt.id, prompt.n, chat->max_tokens, "chat");
		request.stop = chat->stop.text;
		request.n_stop = chat->stop.n;
		request.sequence = (uint64_t)chat->again;
		g->show = stdout;
		g->watch = chat->runtime.watch;
		interrupt_watch();
		if (chat->terminal)
			terminal_hide_keys(true);
		good = completion_run(g, chat->runtime.session, &request, error);
		terminal_hide_keys(false);
	}
	token_list_free(&prompt);
	if (!good)
		return false;
	putchar('\n');
	if (chat->terminal)
		speed_print(stdout, &g->figures, "/set max-tokens N allows more");
	chat->turns++;
	chat->tokens += g->figures.tokens;
	chat->answered += g->figures.seconds.prefill + g->figures.seconds.decode;
	interrupt_watch();
	return conversation_append(&chat->conversation, "assistant", g->text.data, g->text.size) ||
	       error_set(error, "out of memory");
}

static bool answer_message(struct chat* chat, const char* text, size_t size, struct error* error) {
	struct conversation* const c = &chat->conversation;
	text_add(&chat->attached, text, size);
	const bool kept =
	    !chat->attached.failed && conversation_append(c, "user", chat->attached.data, chat->attached.size);
	text_clear(&chat->attached);
	chat->attached.failed = false;
	if (!kept)
		return error_set(error, "out of memory");
	chat->again = 0;
	if (chat_answer(chat, error))
		return true;
	if (strcmp(c->message[c->n - 1].role, "user") == 0)
		conversation_forget(c, c->n - 1, 1);
	return false;
}

/* ---- the conversation ----------------------------------------------------------------------- */

static bool input_waits(void* user) {
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	(void)user;
	return poll(&input, 1, 0) != 0;
}

/* While the user thinks and types, makes draft weights, and then continues the search pass by pass: until a
 * key is pressed, for as long as answers took, or until it brings nothing more. */
static void learn_idly(void* user) {
	struct chat* const chat = user;
	swiftlet_session* const session = chat->runtime.session;
	const struct swiftlet_options* o = &chat->runtime.options;
	struct idle_progress progress = {.search = NULL};
	struct session_work work;
	struct error ignored;
	bool any = false;
	if (!chat->terminal || !(o->learning.idle > 0))
		return;
	while (!input_waits(NULL) && !interrupted() && engine_make_draft_weights(chat->runtime.engine))
		;
	if (!session_search(session))
		return;
	if (!chat->idle)
		chat->idle = idle_open(chat->runtime.engine, &ignored);
	while (chat->idle && !input_waits(NULL) && !interrupted() &&
	       chat->learned < o->learning.idle * fmax(chat->answered, 1e-9) &&
	       idle_goes_on(&progress, session_search(session), o->learning.patience) &&
	       session_next_idle(session, &work) &&
	       idle_run(chat->idle, session, &work, input_waits, NULL, &chat->learned))
		any = true;
	if (any && chat->runtime.watch)
		memory_idle(chat->runtime.watch);
}

/* Reads the lines up to the one that ends with three quotes; the first begins with them. False at the end of
 * input, or when the message was given up. */
static bool read_block(struct chat* chat, const char* first, size_t size, struct text* block) {
	static const char quotes[] = "\"\"\"";
	const char* line = first + 3;
	size -= 3;
	text_clear(block);
	while (size < 3 || memcmp(line + size - 3, quotes, 3) != 0) {
		if (size > 0 ||
		    line != first + 3) { /* three quotes alone on a line do not end the message that they begin */
			text_add(block, line, size);
			text_add(block, "\n", 1);
		}
		if (line_editor_read(chat->editor, "... ", &line, &size) != LINE_READ)
			return false;
	}
	text_add(block, line, size - 3);
	return !block->failed;
}

/* Runs one message or command. False: the conversation ends, with *status. */
static bool take_line(struct chat* chat, const char* line, size_t size, int* status) {
	struct error error = {{0}};
	const bool slash = line[0] == '/' && !memchr(line, '\n', size), command = slash && line[1] != '/';
	line_editor_remember(chat->editor, line);
	if (command && !chat_run_command(chat, line))
		return false;
	const size_t skip = slash ? 1 : 0; /* of two */
	if (!command && !answer_message(chat, line + skip, size - skip, &error)) {
		*status = complain(STATUS_FAILED, "%s", error.message);
		if (!chat->terminal)
			return false;
	}
	if (ferror(stdout)) {
		*status = complain(STATUS_FAILED, "standard output could not be written");
		return false;
	}
	return true;
}

/* Lines until the end; the exit status. */
static int read_messages(struct chat* chat) {
	struct text block = {0};
	int status = STATUS_DONE;
	interrupt_watch();
	while (!terminated()) {
		const char* line;
		size_t size;
		const enum line_result result = line_editor_read(chat->editor, "> ", &line, &size);
		if (result == LINE_CANCELLED) {
			interrupt_watch();
			continue;
		}
		if (result == LINE_END)
			break;
		if (size >= 3 && memcmp(line, "\"\"\"", 3) == 0) {
			if (!read_block(chat, line, size, &block)) {
				if (!interrupted() || terminated() || !chat->terminal)
					break;
				interrupt_watch();
				continue;
			}
			line = block.data;
			size = block.size;
		}
		if (size > 0 && !take_line(chat, line, size, &status))
			break;
	}
	if (chat->terminal) {
		putchar('\n');
		status = STATUS_DONE;
	}
	text_free(&block);
	return status;
}

/* The history file: chat_history beside the store; "" without a home folder or with --no-store. */
static void history_path(const struct chat* chat, char* path, size_t size) {
	struct error ignored;
	char* const slash =
	    !chat->runtime.wish.no_store && store_default_path(path, size, &ignored) ? strrchr(path, '/') : NULL;
	if (!slash || (size_t)(slash - path) + sizeof "/chat_history" > size)
		path[0] = 0;
	else
		memcpy(slash, "/chat_history", sizeof "/chat_history");
}

static int start_chat(struct chat* chat) {
	struct error error = {{0}};
	char history[1024];
	if (!chat_template_check(model_chat_template(chat->runtime.model, false), &error))
		return complain(STATUS_FAILED, "%s", error.message);
	chat->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	history_path(chat, history, sizeof history);
	chat->editor = line_editor_open(chat->terminal, history[0] ? history : NULL, learn_idly, chat);
	if (!chat->editor || (chat->system && !conversation_set_system(&chat->conversation, chat->system)))
		return complain(STATUS_FAILED, "out of memory");
	if (chat->terminal) {
		runtime_print(stdout, &chat->runtime);
		puts("/help lists the commands.");
	}
	int status = read_messages(chat);
	if (chat->turns && !runtime_save_mask(&chat->runtime, &chat->completion.figures, "chat", chat->tokens))
		status = STATUS_FAILED;
	return status;
}

int command_chat(int argc, char** argv) {
	struct chat chat = {.max_tokens = 1024};
	const struct command_option option[] = {
	    TEXT("system", 0, "TEXT", "the system message", &chat.system),
	    COUNT("max-tokens", 'n', "N", "generate at most N tokens an answer", &chat.max_tokens, 1, 1 << 20),
	    LIST("stop", 0, "TEXT", "end an answer before this text; may be repeated", &chat.stop),
	    MODEL_OPTION(chat.runtime.wish),
	    MORE_OPTIONS,
	    TEXT("chat-template-kwargs", 0, "JSON",
	         "variables of the chat template, such as {\"enable_thinking\": false}", &chat.variables),
	    RUNTIME_OPTIONS(chat.runtime.wish),
	};
	struct command_line line = {
	    .name = "chat",
	    .usage = "MODEL [--system TEXT] [options]",
	    .about =
	        "Holds a conversation in the terminal, or with the lines of a pipe. /help lists the commands.\n"
	        "Ctrl-C stops an answer, Ctrl-D ends the conversation. A message of several lines is pasted, or\n"
	        "stands between two \"\"\".",
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
	line_editor_close(chat.editor);
	conversation_free(&chat.conversation);
	text_free(&chat.attached);
	completion_free(&chat.completion);
	idle_close(chat.idle);
	return runtime_close(&chat.runtime, status);
}
