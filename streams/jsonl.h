/* A stream of prompts: one JSON object a line, read in order.
 *
 * Input lines: {"id", "task"?, "prompt" | "messages", "max_tokens"? (128)}, and with messages what
 * streams/chat_parts.h reads; or a line of OpenAI's batch files, {"custom_id", "url", "body": {…}}. The
 * fields of a line are checked here; the session checks whether a prompt fits the context. */
#pragma once

#include <stdio.h>

#include "streams/chat_parts.h"

enum { JSONL_MAX_LINE = 64 << 20, JSONL_MAX_TOKENS = 1 << 20 };

struct instance {
	long line;    /* 1-based, set by the reader */
	char* id;     /* the JSON text as it came; NULL: absent */
	char* task;   /* or NULL */
	char* prompt; /* NULL when there are messages */
	struct chat_parts chat;
	int max_tokens;
};

/* Reads one line's text (without its newline). False with the error set; `id` is set even then if it can be
 * read. Free in any case. */
bool instance_parse(const char* text, size_t size, struct instance*, struct error*);
void instance_free(struct instance*);

struct jsonl_reader {
	FILE* file; /* the caller's */
	char* text;
	size_t capacity;
	long line;
};
enum jsonl_status { JSONL_END, JSONL_INSTANCE, JSONL_BROKEN };
/* The next line that is not blank. BROKEN: the line could not be read. Then instance->line and perhaps ->id
 * are set, the error has the reason, and the stream goes on. Free the instance unless END. */
enum jsonl_status jsonl_next(struct jsonl_reader*, struct instance*, struct error*);
void jsonl_free(struct jsonl_reader*);
