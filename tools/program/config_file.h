/* Options in a file, one a line, for a service that starts by itself: `port = 8081`. Their names are those of
 * the command line. A line without `=` is a flag, and one that begins with # is a comment. */
#pragma once

#include "tools/program/options.h"

struct config_file {
	char** word; /* (n_words) the command line: its name, the file's options, its own words behind them */
	int n_words, n_options; /* n_options: of the file */
	char* text;
};

/* Puts the options of the file that --config names before those of argv, which may set them anew. Without
 * --config, `word` is a copy of argv. OPTIONS_GO_ON, or an exit status with a message printed; close it in
 * both cases. */
int config_file_open(struct config_file*, const struct command_line*, int argc, char** argv);
void config_file_close(struct config_file*);
