/* The messages of a conversation: they can be added, dropped from the oldest on, and saved to a file.
 *
 * The file is JSON as chat APIs have it: {"messages": [{"role": "user", "content": "…"}, …]}. A list alone is
 * read, too. */
#pragma once

#include "tools/program/runtime.h"

struct conversation {
	struct chat_message* message; /* (n) contents malloc'd; roles are constants */
	int n;
};

/* role: "system", "user" or "assistant". False on no memory. */
bool conversation_append(struct conversation*, const char* role, const char* text, size_t size);
/* Forgets messages [from, from + n). */
void conversation_forget(struct conversation*, int from, int n);
/* 1 behind a system message, else 0. */
int conversation_first_turn(const struct conversation*);
/* Replaces the system message; an empty text removes it. False on no memory. */
bool conversation_set_system(struct conversation*, const char* text);
/* False with the error set. Loading replaces all messages or none. */
bool conversation_save(const struct conversation*, const char* path, struct error*);
bool conversation_load(struct conversation*, const char* path, struct error*);
void conversation_free(struct conversation*);
