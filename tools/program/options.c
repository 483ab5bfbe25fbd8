/* The command line: the parser. */
#include "tools/program/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tools/program/help.h"
#include "tools/program/ranks.h"

int complain(int status, const char* format, ...) {
	va_list arguments;
	va_start(arguments, format);
	fflush(stdout);
	fputs("swiftlet: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	return status;
}

int output_written(int status) {
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	return complain(STATUS_FAILED, "standard output could not be written");
}

/* ---- the nearest name ---------------------------------------------------------------------- */

enum { LONGEST_NAME = 40 };

/* Counts letters to insert, delete, replace or swap with their neighbour (optimal string alignment). */
static int edit_distance(const char* a, const char* b) {
	int rows[3][LONGEST_NAME + 1], *before = rows[0], *above = rows[1], *row = rows[2];
	const int n = (int)strlen(b);
	for (int j = 0; j <= n; j++)
		row[j] = j;
	for (int i = 1; a[i - 1]; i++) {
		int* const oldest = before;
		before = above, above = row, row = oldest;
		row[0] = i;
		for (int j = 1; j <= n; j++) {
			const int change = above[j - 1] + (a[i - 1] != b[j - 1]);
			row[j] = least(change, 1 + least(above[j], row[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
	}
	return row[n];
}

/* One change for each four letters, and at least one: two would turn any word of three letters into
 * another. */
const char* nearest_name(const char* mistyped, const char* const* name, int n) {
	const size_t length = strlen(mistyped);
	if (length < 2 || length > LONGEST_NAME)
		return NULL;
	const char* best = NULL;
	int nearest = length < 8 ? 1 : (int)length / 4;
	for (int i = 0; i < n; i++) {
		const bool begins = length >= 3 && strncmp(name[i], mistyped, length) == 0;
		const int far = begins                            ? 0
		                : strlen(name[i]) <= LONGEST_NAME ? edit_distance(mistyped, name[i])
		                                                  : INT_MAX;
		if (far <= nearest) {
			nearest = far - 1;
			best = name[i];
		}
	}
	return best;
}

/* Names of these options in other programs, and our own earlier ones. */
const struct option_synonym option_synonyms[] = {
    {"temperature", "temp", false},
    {"certified-head", "screened-head", true},
    {"ctx-size", "context", false},
    {"max-model-len", "context", false},
    {"n-predict", "max-tokens", false},
    {"predict", "max-tokens", false},
    {"max-new-tokens", "max-tokens", false},
    {"parallel", "sessions", false},
    {"max-num-seqs", "sessions", false},
    {"served-model-name", "alias", false},
    {"system-prompt", "system", false},
    {"top_p", "top-p", false},
    {"top_k", "top-k", false},
    {"min_p", "min-p", false},
    {"cache-type-k", "cache-type", false},
    {"model-draft", "draft-model", false},
    {NULL, NULL, false},
};

/* ---- parsing ------------------------------------------------------------------------------- */

static int refuse_unknown(const struct command_line* line, const char* name) {
	const char* known[MOST_OPTIONS + 128];
	int n = 0;
	for (int i = 0; i < line->n_options; i++)
		if (line->option[i].name)
			known[n++] = line->option[i].name;
	for (int i = 0; i < n_options && line->session; i++)
		if (option_table[i].type != OPTION_HEADING)
			known[n++] = option_table[i].name;
	const int own = n;
	for (const struct option_synonym* s = option_synonyms; s->other; s++)
		for (int i = 0; i < own && !s->earlier; i++)
			if (strcmp(known[i], s->name) == 0 && n < (int)(sizeof known / sizeof *known))
				known[n++] = s->other;
	const char* const near = nearest_name(name, known, n);
	if (near)
		return complain(STATUS_USAGE, "%s: no option --%s; did you mean --%s?", line->name, name, near);
	return complain(STATUS_USAGE, "%s: no option --%s (swiftlet %s --help-all lists them)", line->name, name,
	                line->name);
}

static int take_count(const struct command_line* line, const struct command_option* o, const char* value) {
	char* end;
	errno = 0;
	const long long n = strtoll(value, &end, 10);
	if (end == value || *end || errno == ERANGE || n < o->least || n > o->most)
		return complain(STATUS_USAGE,
		                "%s: --%s is \"%s\", expected a whole number from %" PRId64 " to %" PRId64,
		                line->name, o->name, value, o->least, o->most);
	if (o->size == sizeof(int))
		*(int*)o->target = (int)n;
	else
		*(int64_t*)o->target = n;
	return OPTIONS_GO_ON;
}

/* value is NULL for a flag. */
static int take_option(const struct command_line* line, const struct command_option* o, const char* value) {
	if (o->kind == OPTION_FLAG) {
		*(bool*)o->target = true;
	} else if (o->kind == OPTION_TEXT) {
		*(const char**)o->target = value;
	} else if (o->kind == OPTION_COUNT) {
		return take_count(line, o, value);
	} else {
		struct text_list* const list = o->target;
		if (list->n == (int)(sizeof list->text / sizeof *list->text))
			return complain(STATUS_USAGE, "%s: more than %d times --%s", line->name, list->n, o->name);
		list->text[list->n++] = value;
	}
	return OPTIONS_GO_ON;
}

static int set_session_option(const struct command_line* line, const struct option* option,
                              const char* value) {
	struct error error;
	return option_set(line->session, option, value, &error)
	           ? OPTIONS_GO_ON
	           : complain(STATUS_USAGE, "%s: %s", line->name, error.message);
}

static const struct command_option* find_option(const struct command_line* line, const char* name,
                                                char letter) {
	for (int i = 0; i < line->n_options; i++) {
		const struct command_option* const o = &line->option[i];
		if (o->name && (name ? strcmp(o->name, name) == 0 : o->letter && o->letter == letter))
			return o;
	}
	return NULL;
}

/* Our name for another program's option. */
static const char* own_name(const char* name) {
	for (const struct option_synonym* s = option_synonyms; s->other; s++)
		if (strcmp(s->other, name) == 0)
			return s->name;
	return name;
}

int options_takes(const struct command_line* line, const char* name) {
	const char* const own = own_name(name);
	const struct command_option* const o = find_option(line, own, 0);
	if (o)
		return o->kind == OPTION_FLAG ? 0 : 1;
	return line->session && option_named(own, 0) ? 1 : -1;
}

/* Reads the option at argv[*at], whose value may be the next word. */
static int parse_option(const struct command_line* line, int argc, char** argv, int* at) {
	const char* const text = argv[*at];
	const bool is_long = text[1] == '-';
	char given[64] = "";
	const char* value = NULL;
	if (is_long) {
		const char* const equals = strchr(text, '=');
		const size_t length = equals ? (size_t)(equals - text) - 2 : strlen(text) - 2;
		if (length >= sizeof given)
			return refuse_unknown(line, text + 2);
		memcpy(given, text + 2, length);
		value = equals ? equals + 1 : NULL;
	} else if (text[2]) {
		if (options_takes(line, text + 1) >= 0 || strcmp(text, "-help") == 0)
			return complain(STATUS_USAGE, "%s: no option %s; did you mean -%s?", line->name, text, text);
		value = text + 2;
	}
	const char* const name = is_long ? own_name(given) : NULL;
	const struct command_option* const o = find_option(line, name, text[1]);
	const struct option* const shared = !o && line->session ? option_named(name, text[1]) : NULL;
	if (!o && !shared) {
		if (is_long)
			return refuse_unknown(line, given);
		return complain(STATUS_USAGE, "%s: no option %s (swiftlet %s --help lists them)", line->name, text,
		                line->name);
	}
	if (!is_long && value && o && o->kind == OPTION_COUNT && isalpha((unsigned char)*value))
		return complain(STATUS_USAGE, "%s: no option %s (swiftlet %s --help lists them)", line->name, text,
		                line->name);
	const bool flag = o && o->kind == OPTION_FLAG;
	if (flag && value)
		return complain(STATUS_USAGE, "%s: --%s takes no value", line->name, o->name);
	if (!flag && !value) {
		if (*at + 1 >= argc)
			return complain(STATUS_USAGE, "%s: %s needs a value", line->name, text);
		value = argv[++*at];
	}
	return o ? take_option(line, o, value) : set_session_option(line, shared, value);
}

static int take_word(struct command_line* line, const char* word) {
	if (line->n_words == line->max_words)
		return complain(STATUS_USAGE, "%s: \"%s\" was not expected: swiftlet %s %s", line->name, word,
		                line->name, line->usage);
	line->word[line->n_words++] = word;
	return OPTIONS_GO_ON;
}

int options_parse(struct command_line* line, int argc, char** argv) {
	if (line->session) {
		options_default(line->session);
		line->session->engine.group = ranks_group();
	}
	line->n_words = 0;
	help_keep_defaults(line);
	bool only_words = false;
	for (int i = 1; i < argc; i++) {
		const bool option = !only_words && argv[i][0] == '-' && argv[i][1];
		int status = OPTIONS_GO_ON;
		if (option && strcmp(argv[i], "--") == 0) {
			only_words = true;
		} else if (option && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0 ||
		                      strcmp(argv[i], "--help-all") == 0)) {
			help_print(line, strcmp(argv[i], "--help-all") == 0);
			return output_written(STATUS_DONE);
		} else {
			status = option ? parse_option(line, argc, argv, &i) : take_word(line, argv[i]);
		}
		if (status != OPTIONS_GO_ON)
			return status;
	}
	return OPTIONS_GO_ON;
}

const char* options_model(const struct command_line* line, const char* model_option) {
	if (model_option && line->n_words > 0) {
		complain(STATUS_USAGE, "%s: the model is named twice, \"%s\" and \"%s\"", line->name, line->word[0],
		         model_option);
		return NULL;
	}
	return model_option ? model_option : line->n_words > 0 ? line->word[0] : "builtin";
}

int options_parse_model(struct command_line* line, int argc, char** argv, const char** model) {
	const int status = options_parse(line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	*model = options_model(line, *model);
	return *model ? OPTIONS_GO_ON : STATUS_USAGE;
}
