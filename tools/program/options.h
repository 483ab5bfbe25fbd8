/* The command line: one parser for every command.
 *
 * A command lists its own options and whether it takes the session's (swiftlet_options) too. The parser
 * reads `--name value`, `--name=value`, `-n value`, `-nvalue` and `--`. It prints help. It refuses an unknown
 * name and suggests the nearest known one. --help shows the common options on one screen, and --help-all
 * shows all and explains the terms. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/decode/options.h"

enum { STATUS_DONE = 0, STATUS_FAILED = 1, STATUS_USAGE = 2, OPTIONS_GO_ON = -1 };
enum { MOST_OPTIONS = 64 };

struct text_list { /* the values of an option that may be repeated; pointers into argv */
	const char* text[64];
	int n;
};

enum option_kind {
	OPTION_FLAG,  /* bool* target, set true */
	OPTION_TEXT,  /* const char** target */
	OPTION_COUNT, /* int* or int64_t* target, in [least, most] */
	OPTION_LIST   /* struct text_list* target */
};

struct command_option {
	const char* name;  /* without dashes; NULL: MORE_OPTIONS */
	char letter;       /* short form, or 0 */
	const char* value; /* the value's name in the help; NULL for a flag */
	const char* help;
	enum option_kind kind;
	void* target;
	int64_t least, most;
	size_t size; /* of what a count is kept in */
};

/* Rows of an option table. The rows behind MORE_OPTIONS appear in --help-all only. The help prints a count's
 * default by itself, unless that is 0. */
#define MORE_OPTIONS                                                                                         \
	{ NULL, 0, NULL, NULL, OPTION_FLAG, NULL, 0, 0, 0 }
#define FLAG(name, help, target) LETTER_FLAG(name, 0, help, target)
#define LETTER_FLAG(name, letter, help, target)                                                              \
	{ name, letter, NULL, help, OPTION_FLAG, target, 0, 0, 0 }
#define TEXT(name, letter, value, help, target)                                                              \
	{ name, letter, value, help, OPTION_TEXT, target, 0, 0, 0 }
#define COUNT(name, letter, value, help, target, least, most)                                                \
	{ name, letter, value, help, OPTION_COUNT, target, least, most, sizeof *(target) }
#define LIST(name, letter, value, help, target)                                                              \
	{ name, letter, value, help, OPTION_LIST, target, 0, 0, 0 }

struct option_synonym {
	const char *other, *name;
	bool earlier; /* our own name before; the help does not list it */
};
extern const struct option_synonym option_synonyms[]; /* the last row is empty */

/* A command line's table. */
#define OPTIONS(table) .option = (table), .n_options = sizeof(table) / sizeof *(table)

struct command_line {
	const char* name;                    /* "run" */
	const char* usage;                   /* what follows `swiftlet run` */
	const char* about;                   /* a paragraph, lines broken by hand, no final newline */
	const char* details;                 /* more of it for --help-all, or NULL */
	const char* examples;                /* lines, or NULL */
	const struct command_option* option; /* (n_options) */
	int n_options;                       /* at most MOST_OPTIONS */
	struct swiftlet_options* session;    /* takes the session's options too; NULL: it does not */
	const char* without;                 /* heading of session options that only --help-all prints, or NULL */
	int64_t fallback[MOST_OPTIONS];      /* out: (n_options) the counts' defaults */
	const char* word[64];                /* out: (n_words) the words between the options */
	int n_words, max_words;              /* max_words: in, at most 64 */
};

/* Reads argv[1..argc) (argv[0] is the command's name). Sets session to the defaults first. OPTIONS_GO_ON, or
 * an exit status after help or a message about wrong usage. */
int options_parse(struct command_line*, int argc, char** argv);

/* Prints a message "swiftlet: …" on standard error; returns the given status. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
int complain(int status, const char* format, ...);

/* Flushes standard output. Returns the given status, or STATUS_FAILED with a message if writing failed. */
int output_written(int status);

/* The nearest of n names to a mistyped one, or NULL if none is near. */
const char* nearest_name(const char* mistyped, const char* const* name, int n);

/* Whether the command has an option of this name: 1 with a value, 0 without, -1 if it has none. */
int options_takes(const struct command_line*, const char* name);

/* MODEL from `-m` or the first word; `builtin` without both. NULL with a message printed when both were
 * given. */
const char* options_model(const struct command_line*, const char* model_option);
/* Parses the options and sets *model to MODEL. */
int options_parse_model(struct command_line*, int argc, char** argv, const char** model);
