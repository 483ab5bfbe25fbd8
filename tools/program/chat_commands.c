/* Commands in a chat: lines that begin with '/'. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/session.h"
#include "optimizer/idle.h"
#include "tools/program/chat.h"
#include "tools/program/draw_mask.h"

struct chat_command {
	const char *name, *argument, *about;
	void (*run)(struct chat*, const char* argument); /* NULL: the conversation ends */
};

static void print_help(struct chat* chat, const char* argument);

/* ---- the conversation ----------------------------------------------------------------------- */

static void set_system(struct chat* chat, const char* text) {
	struct conversation* const c = &chat->conversation;
	if (!*text)
		printf("system: %s\n", conversation_first_turn(c) ? c->message[0].content : "(none)");
	else if (!conversation_set_system(c, strcmp(text, "none") == 0 ? "" : text))
		complain(STATUS_FAILED, "out of memory");
	else
		puts("The system message is set.");
}

static void reset_conversation(struct chat* chat, const char* argument) {
	const int start = conversation_first_turn(&chat->conversation);
	(void)argument;
	conversation_forget(&chat->conversation, start, chat->conversation.n - start);
	text_clear(&chat->attached);
	puts("The conversation is forgotten.");
}

static void regenerate_answer(struct chat* chat, const char* argument) {
	struct conversation* const c = &chat->conversation;
	struct error error = {{0}};
	(void)argument;
	if (c->n < 2 || strcmp(c->message[c->n - 1].role, "assistant") != 0) {
		puts("There is no answer to replace yet.");
		return;
	}
	if (!(chat->runtime.options.sampling.temperature > 0))
		puts("(at temperature 0 the same question has the same answer; /set temp 0.8 varies it)");
	const struct chat_message* const last = &c->message[c->n - 1];
	struct text old = {0};
	text_add(&old, last->content, last->content_size);
	conversation_forget(c, c->n - 1, 1);
	chat->again++;
	if (!chat_answer(chat, &error)) {
		complain(STATUS_FAILED, "%s", error.message);
		if (!old.failed)
			conversation_append(c, "assistant", old.data ? old.data : "", old.size);
	}
	text_free(&old);
}

static void save_conversation(struct chat* chat, const char* path) {
	struct error error = {{0}};
	if (!*path)
		puts("/save needs the name of a file.");
	else if (!conversation_save(&chat->conversation, path, &error))
		complain(STATUS_FAILED, "%s", error.message);
	else
		printf("%d messages are written to %s.\n", chat->conversation.n, path);
}

static void load_conversation(struct chat* chat, const char* path) {
	struct error error = {{0}};
	if (!*path)
		puts("/load needs the name of a file.");
	else if (!conversation_load(&chat->conversation, path, &error))
		complain(STATUS_FAILED, "%s (/load reads a file that /save wrote; /read reads any text)",
		         error.message);
	else
		printf("%d messages are read from %s.\n", chat->conversation.n, path);
}

static void attach_file(struct chat* chat, const char* path) {
	struct error error = {{0}};
	size_t size = 0;
	if (!*path) {
		puts("/read needs the name of a file.");
		return;
	}
	char* const text = strcmp(path, "-") == 0 ? NULL : read_whole(path, &size, &error);
	if (!text) {
		complain(STATUS_FAILED, "%s", error.message[0] ? error.message : "/read needs the name of a file");
		return;
	}
	text_print(&chat->attached, "%s:\n\n", path);
	text_add(&chat->attached, text, size);
	text_put(&chat->attached, "\n\n");
	free(text);
	printf("%zu bytes of %s go with your next message.\n", size, path);
}

/* ---- settings and figures ------------------------------------------------------------------- */

static void set_option(struct chat* chat, const char* argument) {
	static const char* const name[] = {"temp", "top-p", "top-k", "min-p", "seed"};
	enum { NAMES = sizeof name / sizeof *name };
	struct swiftlet_options* const options = &chat->runtime.options;
	const size_t length = strcspn(argument, " ");
	const char* const value = argument + length + strspn(argument + length, " ");
	char message[300] = "", text[64];
	const bool tokens = length == 10 && strncmp(argument, "max-tokens", length) == 0;
	if (!*argument || !*value) {
		for (int i = 0; i < NAMES; i++)
			if (swiftlet_options_get(options, name[i], text, sizeof text))
				printf("%-10s  %s\n", name[i], text);
		printf("%-10s  %d\n", "max-tokens", chat->max_tokens);
		return;
	}
	for (int i = 0; i < NAMES; i++)
		if (strlen(name[i]) == length && strncmp(argument, name[i], length) == 0) {
			if (swiftlet_options_set(options, name[i], value, message, sizeof message) <= 0)
				puts(message);
			else
				printf("%s is %s from now on.\n", name[i], value);
			return;
		}
	char* end;
	const long n = strtol(value, &end, 10);
	if (tokens && !*end && n >= 1 && n <= 1 << 20) {
		chat->max_tokens = (int)n;
		printf("max-tokens is %ld from now on.\n", n);
	} else
		puts(tokens ? "max-tokens is a whole number from 1 to 1048576."
		            : "/set knows temp, top-p, top-k, min-p, seed and max-tokens.");
}

static void print_stats(struct chat* chat, const char* argument) {
	(void)argument;
	if (chat->turns == 0) {
		puts("There has been no answer yet.");
		return;
	}
	struct swiftlet_figures figures = chat->completion.figures;
	figures.seconds.load = chat->runtime.load_seconds;
	figures_print(stdout, &figures, chat->runtime.options.drafting.method);
	printf("%d answer%s, %" PRId64 " tokens; the KV cache still held %d tokens of the last prompt\n",
	       chat->turns, chat->turns == 1 ? "" : "s", chat->tokens, figures.cached_tokens);
}

static void print_mask(struct chat* chat, const char* argument) {
	struct swiftlet_figures f;
	(void)argument;
	swiftlet_session_figures(chat->runtime.session, &f);
	draw_figures(stdout, &f, chat->runtime.model->weights.shape.n_blocks);
	const char* const status =
	    session_search(chat->runtime.session) ? idle_status(chat->runtime.session) : NULL;
	if (status)
		puts(status);
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct chat_command commands[] = {
    {"/help", "", "this list", print_help},
    {"/system", "TEXT", "set the system message; `none` removes it; without a text the command shows it",
     set_system},
    {"/regenerate", "", "answer the last message again", regenerate_answer},
    {"/read", "FILE", "send the file's text with your next message", attach_file},
    {"/save", "FILE", "write the conversation to a file, as JSON", save_conversation},
    {"/load", "FILE", "continue a conversation that /save wrote", load_conversation},
    {"/set", "NAME VALUE",
     "set temp, top-p, top-k, min-p, seed or max-tokens; without a name the command shows all", set_option},
    {"/reset", "", "forget the conversation (what was learned stays)", reset_conversation},
    {"/stats", "", "figures of the last answer", print_stats},
    {"/mask", "", "the layers that drafts skip", print_mask},
    {"/quit", "", "end the program, as Ctrl-D does; Ctrl-C stops an answer", NULL},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(struct chat* chat, const char* argument) {
	(void)chat;
	(void)argument;
	for (int i = 0; i < COMMANDS; i++) {
		char left[40];
		snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].argument);
		printf("%-18s %s\n", left, commands[i].about);
	}
	puts("\"\"\"                begins a message of several lines, which \"\"\" ends\n"
	     "A line that begins with two slashes is sent with one.");
}

bool chat_run_command(struct chat* chat, const char* line) {
	static const char* const synonym[][2] = {{"/exit", "/quit"},
	                                         {"/bye", "/quit"},
	                                         {"/clear", "/reset"},
	                                         {"/?", "/help"},
	                                         {"/retry", "/regenerate"}};
	const char* known[COMMANDS];
	char name[32];
	const size_t length = strcspn(line, " \t");
	const char* const argument = line + length + strspn(line + length, " \t");
	snprintf(name, sizeof name, "%.*s", (int)length, line);
	for (size_t i = 0; i < sizeof synonym / sizeof *synonym; i++)
		if (strcmp(name, synonym[i][0]) == 0)
			snprintf(name, sizeof name, "%s", synonym[i][1]);
	for (int i = 0; i < COMMANDS; i++) {
		known[i] = commands[i].name;
		if (strcmp(name, commands[i].name) == 0) {
			if (commands[i].run)
				commands[i].run(chat, argument);
			return commands[i].run != NULL;
		}
	}
	const char* const near = nearest_name(name, known, COMMANDS);
	if (near)
		printf("no command %s; did you mean %s?\n", name, near);
	else
		printf("no command %s; /help lists them\n", name);
	return true;
}
