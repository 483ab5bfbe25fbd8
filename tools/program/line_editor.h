/* Lines that a person types at a terminal, with arrow keys, a history that is kept across sessions, and
 * pasted blocks that stay whole (bracketed paste). libedit does the editing if the program was built with it.
 * Otherwise, and if input is no terminal, lines are read as they come. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct line_editor;

enum line_result {
	LINE_READ,
	LINE_CANCELLED, /* Ctrl-C while typing (tools/program/interrupt.h): the line is dropped */
	LINE_END        /* end of input, SIGTERM, or no memory */
};

/* terminal: standard input and output are terminals. path: the history file, borrowed, readable only by its
 * owner; NULL: no history. wait, which may be NULL, is called with `user` before each key is read; it may
 * work until input waits. NULL on no memory. */
struct line_editor* line_editor_open(bool terminal, const char* path, void (*wait)(void* user), void* user);
void line_editor_close(struct line_editor*);

/* The next line without its end, borrowed until the next call. A pasted block contains line breaks. */
enum line_result line_editor_read(struct line_editor*, const char* prompt, const char** line, size_t* size);
/* Adds a text to the history. */
void line_editor_remember(struct line_editor*, const char* text);
