/* A command's help, in two sizes. */
#pragma once

#include "tools/program/options.h"

/* Notes the defaults of the command's own options, before any option is read. */
void help_keep_defaults(struct command_line*);
/* all: every option, and the meaning of terms; otherwise the common options, on one screen. */
void help_print(const struct command_line*, bool all);
