/* A command's help, in two sizes. */
#ifndef SWIFTLET_TOOLS_PROGRAM_HELP_H
#define SWIFTLET_TOOLS_PROGRAM_HELP_H

#include "tools/program/options.h"

/* Notes the defaults of the command's own options, before any option is read. */
void help_keep_defaults(struct command_line*);
/* all: every option, and the meaning of terms; otherwise the common options, on one screen. */
void help_print(const struct command_line*, bool all);

#endif
