/* Texts drawn at random from the grammars of random schemas, each of which the jsonschema package has to find
 * valid. With an argument this program is the one that draws: a schema a line in, and out for each a line of
 * JSON, an error or an array of texts. Without, it runs schema_oracle.py, which makes the schemas and judges.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "core/grammar/states.h"
#include "tests/core/draw_byte.h"

enum { TEXTS = 12, MAX_TEXT = 400 };

/* False: it did not end in time. */
static bool draw(struct states* s, char* text, uint32_t* seed) {
	static const char likely[] = "\"]},:0123456789abftn{[";
	int at = states_start(s);
	for (size_t n = 0; n < MAX_TEXT; n++) {
		if (states_filling(s))
			at = states_renew(s, at);
		if (states_ends(s, at) && next_random(seed) % 2 == 0)
			return text[n] = 0, true;
		const uint8_t b = draw_byte(s, at, likely, n > MAX_TEXT / 4, seed);
		if (b == 0)
			return text[n] = 0, states_ends(s, at);
		text[n] = (char)b;
		at = states_step(s, at, b);
	}
	return false;
}

static void print_json(const char* text) {
	putchar('"');
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < 32)
			printf("\\u%04x", (unsigned)*text);
		else
			putchar(*text);
	putchar('"');
}

static void answer(void) {
	char* line = NULL;
	size_t capacity = 0;
	ssize_t size;
	uint32_t seed = 1;
	bool literal = false; /* every other schema is read literally */
	while ((size = getline(&line, &capacity, stdin)) >= 0) {
		struct error error = {""};
		struct grammar* g = grammar_from_json_schema(line, (size_t)size, literal, &error);
		literal = !literal;
		struct states* s = g ? states_open(g) : NULL;
		char text[MAX_TEXT + 1];
		bool first = true;
		if (!g)
			print_json(error.message);
		else
			putchar('[');
		for (int i = 0; s && i < TEXTS; i++)
			if (draw(s, text, &seed)) {
				if (!first)
					putchar(',');
				print_json(text);
				first = false;
			}
		printf(g ? "]\n" : "\n");
		states_close(s);
		grammar_free(g);
	}
	free(line);
}

int main(int argc, char** argv) {
	if (argc > 1)
		return answer(), 0;
	const char *source = getenv("SWIFTLET_SOURCE"), *python = getenv("SWIFTLET_PYTHON");
	char command[8192];
	snprintf(command, sizeof command, "'%s' '%s/tests/core/schema_oracle.py' '%s'",
	         python ? python : "python3", source ? source : "..", argv[0]);
	const int status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
