/* Calls drawn at random from grammars that put arguments between tags, read as calls: the jsonschema package
 * has to find the arguments valid under their schemas, which are random too. With an argument this program is
 * the one that draws: a schema a line in, and out for each a line of JSON, an error or an array of arguments.
 * Without, it runs tests/core/schema_oracle.py, which makes the schemas and judges. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "core/grammar/states.h"
#include "streams/service/tool_calls.h"
#include "tests/core/draw_byte.h"

enum { TEXTS = 12, MAX_TEXT = 1200 };

/* Chat templates, whose ways to write calls take turns. */
static const char* const templates[] = {"<tool_call> <parameter=", "<tool_call> </arg_key><arg_value>",
                                        "｜DSML｜ function_calls", "]<]minimax[>[", "<|tool_call_start|>"};
enum { TEMPLATES = sizeof templates / sizeof *templates };

/* Takes the text as a whole if it may come. */
static bool follow(struct states* s, int* at, const char* with) {
	int to = *at;
	for (const char* c = with; *c && to != STATE_DEAD; c++)
		to = states_step(s, to, (uint8_t)*c);
	*at = to == STATE_DEAD ? *at : to;
	return to != STATE_DEAD;
}

/* False: it did not end in time, or ran out of bytes that may come. */
static bool draw(struct states* s, const char* end, char* text, uint32_t* seed) {
	static const char likely[] = "\"]},:0123456789abftn{[</\n";
	int at = states_start(s);
	for (size_t n = 0; n + 40 < MAX_TEXT; n++) {
		const bool close = n > MAX_TEXT / 4;
		if (states_filling(s))
			at = states_renew(s, at);
		if (states_ends(s, at) && next_random(seed) % 2 == 0)
			return text[n] = 0, true;
		if (*end && (close || next_random(seed) % 4 == 0) && follow(s, &at, end)) {
			memcpy(text + n, end, strlen(end));
			n += strlen(end) - 1;
			continue;
		}
		const uint8_t b = draw_byte(s, at, likely, close, seed);
		if (b == 0)
			return text[n] = 0, states_ends(s, at);
		text[n] = (char)b;
		at = states_step(s, at, b);
	}
	return false;
}

/* The arguments of the text's only call; NULL: it has not one call of the tool. */
static char* read_call(const char* schema, const struct tool_syntax* syntax, const char* text) {
	struct text tools = {0};
	struct tool_reader r;
	text_print(&tools, "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": %s}}]",
	           schema);
	tool_reader_open(&r, tools.data, true, 1);
	r.enforced = syntax->trigger;
	tool_reader_add(&r, text, strlen(text));
	tool_reader_end(&r);
	char* const arguments = r.n == 1 && !r.content.size ? strdup(r.call[0].arguments) : NULL;
	for (char* c = arguments; c && *c; c++)
		*c = *c == '\n' ? ' ' : *c; /* white space of JSON; one line an answer */
	tool_reader_close(&r);
	text_free(&tools);
	return arguments;
}

static struct grammar* calls_of(const char* schema, const struct tool_syntax* syntax, const char* first,
                                struct error* error) {
	const struct grammar_call call = {first, first, schema, syntax->end};
	const struct grammar_calls calls = {.call = &call,
	                                    .n = 1,
	                                    .tags = syntax->tags,
	                                    .close = syntax->close,
	                                    .between = syntax->between,
	                                    .finish = syntax->finish,
	                                    .one = true,
	                                    .begun = "",
	                                    .must = true};
	return grammar_from_calls(&calls, error);
}

static void print_drawn(const char* schema, const struct tool_syntax* syntax, uint32_t* seed) {
	struct error error = {""};
	struct text first = {0}, out = {0};
	text_print(&first, "%s%sf%s", syntax->all, syntax->begin, syntax->middle);
	struct grammar* const g = calls_of(schema, syntax, first.data, &error);
	struct states* const s = g ? states_open(g) : NULL;
	char text[MAX_TEXT + 1];
	for (int i = 0; s && i < TEXTS; i++) {
		if (!draw(s, syntax->tags->end, text, seed))
			continue;
		char* const arguments = read_call(schema, syntax, text);
		text_put(&out, out.size ? "," : "");
		text_put(&out, arguments ? arguments : "null");
		if (!arguments)
			fprintf(stderr, "no call: %s\n", text);
		free(arguments);
	}
	if (!g) {
		text_quote(&out, error.message, strlen(error.message));
		printf("%s\n", out.data);
	} else
		printf("[%s]\n", out.size ? out.data : "");
	states_close(s);
	grammar_free(g);
	text_free(&first);
	text_free(&out);
}

static void answer(void) {
	char* line = NULL;
	size_t capacity = 0;
	ssize_t size;
	uint32_t seed = 1;
	for (int i = 0; (size = getline(&line, &capacity, stdin)) > 0; i++) {
		line[size - (line[size - 1] == '\n')] = '\0';
		print_drawn(line, tool_syntax_of(templates[i % TEMPLATES]), &seed);
	}
	free(line);
}

int main(int argc, char** argv) {
	if (argc > 1)
		return answer(), 0;
	const char *source = getenv("SWIFTLET_SOURCE"), *python = getenv("SWIFTLET_PYTHON");
	char command[1024];
	snprintf(command, sizeof command, "'%s' '%s/tests/core/schema_oracle.py' '%s' 600 1 tagged",
	         python ? python : "python3", source ? source : "..", argv[0]);
	fflush(stdout);
	const int status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
