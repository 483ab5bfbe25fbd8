/* A command's help, in two sizes. */
#pragma once

#include "tools/program/options.h"

/* Prints words in lines of at most 80 columns; the first begins in column `at`, the others in `column`. An
 * empty line stays one. */
void help_words(const char* text, int at, int column);
/* Notes the defaults of the command's own options, before any option is read. */
void help_keep_defaults(struct command_line*);
/* all: every option, and the meaning of terms; otherwise the common options, on one screen. */
void help_print(const struct command_line*, bool all);
