/* swiftlet chat: what its loop (command_chat.c) and its commands (chat_commands.c) share. */
#pragma once

#include "streams/text.h"
#include "tools/program/completion.h"
#include "tools/program/conversation.h"
#include "tools/program/line_editor.h"
#include "tools/program/runtime.h"

struct chat {
	const char* system;
	const char* variables; /* chat_template_kwargs */
	int max_tokens;
	struct text_list stop;
	struct runtime runtime;
	struct conversation conversation;
	struct text attached; /* files that go with the next message */
	struct completion completion;
	struct line_editor* editor;
	int64_t tokens;
	int turns, again; /* answers; how often the last one was regenerated */
	bool terminal;
	struct idle_runner* idle; /* NULL: no idle learning has happened yet */
	double answered, learned; /* seconds */
};

/* Runs a line that begins with '/'. False: the conversation ends. */
bool chat_run_command(struct chat*, const char* line);

/* Answers the conversation, whose last message is the user's, and prints the answer. False with the error
 * set. */
bool chat_answer(struct chat*, struct error*);
