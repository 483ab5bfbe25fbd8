/* Any bytes as a template and, after a line of "%%", as JSON variables: a text or a message why not; what the
 * request's own letter made of itself is marked, wherever it went. */
#include <stdlib.h>
#include <string.h>

#include "core/jinja/jinja.h"
#include "tests/fuzz/mutate_jinja.h"

/* U+E000, which no template here writes by itself. */
#define LETTER "\xee\x80\x80"
static const char messages[] =
    "[{\"role\":\"user\",\"content\":\"a" LETTER "b " LETTER LETTER "\",\"" LETTER "k\":[1,\"" LETTER
    "\"],\"n\":2.5},"
    "{\"role\":\"assistant\",\"content\":\" " LETTER "\\n\",\"tool_calls\":[{\"function\":{\"name\":\"" LETTER
    "\",\"arguments\":{\"" LETTER "\":null,\"b\":true}}}]}]";

/* Whether the source can write the letter: by an escape, or as it is. */
static bool may_write_it(const char* source, size_t size) {
	return memmem(source, size, "e000", 4) || memmem(source, size, "E000", 4) ||
	       memmem(source, size, LETTER, 3);
}

static void check_marks(const struct jinja_text* text, bool all) {
	size_t span = 0, before = 0;
	for (size_t i = 0; i < text->n_foreign; i++) {
		if (text->foreign[i].start < before || text->foreign[i].end <= text->foreign[i].start ||
		    text->foreign[i].end > text->size)
			abort();
		before = text->foreign[i].end;
	}
	for (size_t at = 0; all && at + 3 <= text->size; at++) {
		if (memcmp(text->data + at, LETTER, 3) != 0)
			continue;
		while (span < text->n_foreign && text->foreign[span].end < at + 3)
			span++;
		if (span == text->n_foreign || text->foreign[span].start > at)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	const char* const source = (const char*)data;
	const char* const rest = memmem(source, size, "\n%%\n", 4);
	const size_t n = rest ? (size_t)(rest - source) : size;
	const struct jinja_variable variable[] = {
	    {"bos_token", JINJA_WORDS, "<s>", 3},
	    {"messages", JINJA_JSON, messages, sizeof messages - 1},
	    {"tools", JINJA_JSON, "null", 4},
	    {"add_generation_prompt", JINJA_JSON, "true", 4},
	    {"given", JINJA_MEMBERS, rest ? rest + 4 : "", rest ? size - n - 4 : 0},
	};
	const struct jinja_call call = {.source = source,
	                                .size = n,
	                                .variable = variable,
	                                .n_variables = rest ? 5 : 4,
	                                .now = 1753500000,
	                                .trusted_member = "role",
	                                .trusted_words = "user assistant"};
	struct jinja_text text;
	struct error error = {""};
	if (jinja_render(&call, &text, &error) == JINJA_DONE) {
		check_marks(&text, !may_write_it(source, n));
		jinja_text_free(&text);
	} else if (text.data) {
		abort();
	}
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_template(data, size, most, seed);
}
