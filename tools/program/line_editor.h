/* Lines that a person types at a terminal: with the arrow keys, a history that is kept across sessions, and
 * pasted blocks that stay whole (bracketed paste). libedit does the editing, where the program was built with
 * it. Without it, and where input is no terminal, lines are read as they come. */
#ifndef SWIFTLET_TOOLS_PROGRAM_LINE_EDITOR_H
#define SWIFTLET_TOOLS_PROGRAM_LINE_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

struct line_editor;

enum line_result {
	LINE_READ,
	LINE_CANCELLED, /* Ctrl-C while typing (tools/program/interrupt.h): what was typed is dropped */
	LINE_END        /* end of input, SIGTERM, or no memory */
};

/* terminal: standard input and output are one. path: the file to keep a history of lines in, borrowed, made
 * readable for its owner alone; NULL keeps none. wait, which may be NULL, is called before each key is read,
 * with `user`: whoever has work for that time does it there and returns once input waits. NULL on no memory.
 */
struct line_editor* line_editor_open(bool terminal, const char* path, void (*wait)(void* user), void* user);
void line_editor_close(struct line_editor*);

/* The next line without its end, borrowed until the next call; of a pasted block it holds line breaks. */
enum line_result line_editor_read(struct line_editor*, const char* prompt, const char** line, size_t* size);
/* Adds a text to the history. */
void line_editor_remember(struct line_editor*, const char* text);

#endif
