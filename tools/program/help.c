/* Prints a command's help. Defaults are read from the options themselves, so that no text repeats them. */
#include "tools/program/help.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The width of a usual terminal; where an option's text begins. */
enum { WIDTH = 80, COLUMN = 26, LONGEST_VALUE = 30 };

/* The words of figures and options. */
static const struct {
	const char *word, *meaning;
} terms[] = {
    {"draft, verify", "guess tokens cheaply; check them all in one pass of the full model"},
    {"round", "some draft steps and one verification; a plain step is a pass for one token"},
    {"mask", "the attention and MLP layers that drafts skip"},
    {"matchness", "share of recent tokens that the model with a mask predicts"},
    {"alpha", "share of drafted tokens that verification keeps"},
    {"M", "tokens that one verification brings, on average"},
    {"c", "cost of a draft step over the cost of a plain step"},
    {"rows", "tokens that one pass computes side by side"},
    {"kappa", "weight of uncertainty when ucb chooses a mask: mean + kappa * deviation"},
};

void help_keep_defaults(struct command_line* line) {
	for (int i = 0; i < line->n_options; i++) {
		const struct command_option* const o = &line->option[i];
		if (o->name && o->kind == OPTION_COUNT)
			line->fallback[i] = o->size == sizeof(int) ? *(int*)o->target : *(int64_t*)o->target;
	}
}

void help_words(const char* text, int at, int column) {
	while (*text) {
		const int size = (int)strcspn(text, " \n");
		if (at > column && at + 1 + size > WIDTH) {
			printf("\n%*s", column, "");
			at = column;
		}
		at += printf("%s%.*s", at > column ? " " : "", size, text);
		text += size;
		if (strncmp(text, "\n\n", 2) == 0) {
			printf("\n\n%*s", column, "");
			at = column;
		}
		text += strspn(text, " \n");
	}
}

/* Prints a column of words beside their text. */
static void print_beside(const char* left, int column, const char* text) {
	printf("  %-*s", column - 2, left);
	if ((int)strlen(left) > column - 3)
		printf("\n%*s", column, "");
	help_words(text, column, column);
	putchar('\n');
}

/* Prints one option: the left column, its text and its default. */
static void print_entry(char letter, const char* name, const char* value, const char* help,
                        const char* fallback, bool all) {
	char left[160], text[1024];
	const char letters[] = {'-', letter, ',', ' ', 0};
	if (value && !all && strlen(value) > LONGEST_VALUE)
		value = "NAME";
	snprintf(left, sizeof left, "%s--%s%s%s", letter ? letters : "", name, value ? " " : "",
	         value ? value : "");
	snprintf(text, sizeof text, fallback && *fallback ? "%s (%s)" : "%s", help, fallback);
	print_beside(left, COLUMN, text);
}

static void print_own_options(const struct command_line* line, bool all) {
	for (int i = 0; i < line->n_options; i++) {
		const struct command_option* const o = &line->option[i];
		char fallback[32] = "";
		if (!o->name && !all)
			return;
		if (!o->name)
			continue;
		if (line->fallback[i] != 0 && line->fallback[i] != o->most)
			snprintf(fallback, sizeof fallback, "%" PRId64, line->fallback[i]);
		print_entry(o->letter, o->name, o->value, o->help, fallback, all);
	}
}

/* Options under the heading `without` are printed by --help-all only. */
static void print_session_options(bool all, const char* without) {
	bool hidden = false;
	for (int i = 0; i < n_options; i++) {
		const struct option* const o = &option_table[i];
		char value[160];
		if (o->type == OPTION_HEADING) {
			hidden = !all && without && strcmp(o->name, without) == 0;
			if (all)
				printf("\n%s\n", o->name);
		} else if (all || (o->usual && !hidden)) {
			option_value(o, value, sizeof value);
			print_entry(o->letter, o->name, value, o->help, o->fallback, all);
		}
	}
}

static bool has_more(const struct command_line* line) {
	for (int i = 0; i < line->n_options; i++)
		if (!line->option[i].name)
			return true;
	return line->session != NULL;
}

void help_print(const struct command_line* line, bool all) {
	printf("usage: swiftlet %s %s\n\n", line->name, line->usage);
	help_words(line->about, 0, 0);
	putchar('\n');
	if (line->examples)
		printf("\nExamples\n%s\n", line->examples);
	printf("\nOptions (defaults in parentheses)\n");
	print_own_options(line, all);
	if (line->session && !all)
		print_session_options(false, line->without);
	print_entry('h', "help", NULL, "this text", NULL, all);
	if (has_more(line))
		print_entry(0, "help-all", NULL, "every option, and what the terms mean", NULL, all);
	if (line->details && all)
		printf("\n%s\n", line->details);
	if (line->session && all) {
		print_session_options(true, NULL);
		printf("\nTerms\n");
		for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
			print_beside(terms[i].word, 17, terms[i].meaning);
		printf("\nNames of other programs that are understood, too\n");
		for (const struct option_synonym* s = option_synonyms; s->other; s++)
			if (!s->earlier)
				printf("  --%-26s --%s\n", s->other, s->name);
	}
}
