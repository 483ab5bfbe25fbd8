#include "tools/program/config_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/program/runtime.h"

/* The FILE of the last --config FILE or --config=FILE, or NULL. */
static const char* config_path(int argc, char** argv) {
	const char* path = NULL;
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--config=", 9) == 0)
			path = argv[i] + 9;
		else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
			path = argv[++i];
	return path;
}

static char* trim_line(char* text) {
	text += strspn(text, " \t\r");
	size_t n = strlen(text);
	while (n > 0 && strchr(" \t\r", text[n - 1]))
		text[--n] = 0;
	return text;
}

/* Sets *option to `--name=value`, malloc'd; NULL for a line without content. OPTIONS_GO_ON, or a status. */
static int read_option(const struct command_line* line, const char* path, int number, char* text,
                       char** option) {
	text = trim_line(text);
	*option = NULL;
	if (!*text || *text == '#')
		return OPTIONS_GO_ON;
	text += strncmp(text, "--", 2) == 0 ? 2 : 0;
	char* const equals = strchr(text, '=');
	if (equals)
		*equals = 0;
	const char *const name = trim_line(text), *const value = equals ? trim_line(equals + 1) : NULL;
	const int takes = strcmp(name, "config") == 0 ? -1 : options_takes(line, name);
	if (takes < 0)
		return complain(STATUS_USAGE, "%s: %s, line %d: no option \"%s\" (swiftlet %s --help-all lists them)",
		                line->name, path, number, name, line->name);
	if (takes == 0 && value)
		return complain(STATUS_USAGE, "%s: %s, line %d: %s takes no value", line->name, path, number, name);
	if (takes == 1 && !value)
		return complain(STATUS_USAGE, "%s: %s, line %d: expected %s = VALUE", line->name, path, number, name);
	const size_t size = strlen(name) + (value ? strlen(value) : 0) + 4;
	*option = malloc(size);
	if (!*option)
		return complain(STATUS_FAILED, "out of memory");
	snprintf(*option, size, "--%s%s%s", name, value ? "=" : "", value ? value : "");
	return OPTIONS_GO_ON;
}

static int read_options(struct config_file* c, const struct command_line* line, const char* path) {
	char *at = c->text, *end;
	for (int number = 1; *at; at = end, number++) {
		char* option;
		end = at + strcspn(at, "\n");
		if (*end)
			*end++ = 0;
		const int status = read_option(line, path, number, at, &option);
		if (status != OPTIONS_GO_ON)
			return status;
		if (option)
			c->word[c->n_words++] = option;
	}
	return OPTIONS_GO_ON;
}

int config_file_open(struct config_file* c, const struct command_line* line, int argc, char** argv) {
	struct error error = {{0}};
	const char* const path = config_path(argc, argv);
	size_t size = 0, lines = 1;
	*c = (struct config_file){0};
	if (path && !(c->text = read_whole(path, &size, &error)))
		return complain(STATUS_FAILED, "%s: --config: %s", line->name, error.message);
	for (size_t i = 0; i < size; i++)
		lines += c->text[i] == '\n';
	c->word = calloc((size_t)argc + lines + 1, sizeof *c->word);
	if (!c->word)
		return complain(STATUS_FAILED, "out of memory");
	c->word[c->n_words++] = argv[0];
	const int status = path ? read_options(c, line, path) : OPTIONS_GO_ON;
	c->n_options = c->n_words - 1;
	for (int i = 1; i < argc && status == OPTIONS_GO_ON; i++)
		c->word[c->n_words++] = argv[i];
	return status;
}

void config_file_close(struct config_file* c) {
	for (int i = 1; i <= c->n_options; i++)
		free(c->word[i]);
	free(c->word);
	free(c->text);
}
