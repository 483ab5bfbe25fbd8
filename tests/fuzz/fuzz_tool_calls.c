/* Any bytes as an answer that may call tools: text or calls, the same however it is cut. A call names a tool,
 * and its arguments are an object of JSON.
 *
 * The first four bytes choose what the reader expects, how the answer is cut, and where a special token
 * stands. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/service/answer_reader.h"
#include "streams/service/tool_reader.h"

enum { CHOICES = 4 };

static const char strict_schema[] =
    "{\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"n\": "
    "{\"type\": \"integer\"}}, \"required\": [\"s\"], \"additionalProperties\": false}";
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"now\"}},"
    " {\"name\": \"strict\", \"parameters\": {\"type\": \"object\", \"properties\": {\"s\": {\"type\": "
    "\"string\"}, "
    "\"n\": {\"type\": \"integer\"}}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"put\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"o\": {\"type\": "
    "\"object\", "
    "\"properties\": {\"l\": {\"type\": \"array\"}}}, \"l\": {\"type\": \"array\", \"items\": {\"$ref\": "
    "\"#/$defs/r\"}}, \"u\": {\"type\": [\"string\", \"null\"]}, \"any\": {}, \"r\": {\"$ref\": "
    "\"#/$defs/r\"}}, "
    "\"$defs\": {\"r\": {\"anyOf\": [{\"enum\": [\"1\", 2]}, {\"$ref\": \"#/$defs/r\"}]}}}}}]";

static struct tool_checks checks;

int LLVMFuzzerInitialize(int* argc, char*** argv);
int LLVMFuzzerInitialize(int* argc, char*** argv) {
	struct error error;
	(void)argc, (void)argv;
	return tool_checks_add(&checks, "strict", strict_schema,
	                       grammar_from_json_schema(strict_schema, strlen(strict_schema), false, &error))
	           ? 0
	           : -1;
}

static void expect(bool good) {
	if (!good)
		abort();
}

struct answer {
	struct text content, reasoning, calls;
	int n;
};

static void take_texts(struct answer_reader* r, struct answer* a) {
	text_add(&a->content, r->content.data, r->content.size);
	text_add(&a->reasoning, r->reasoning.data, r->reasoning.size);
	text_clear(&r->content);
	text_clear(&r->reasoning);
}

/* Whether a whole value is JSON: the corrector leaves it as it is. The check refuses more, which models may
 * write: deep nesting and some escapes. */
static bool is_json(const char* value, bool utf8) {
	const size_t size = strlen(value);
	struct json_repair json = {.state = REPAIR_VALUE};
	struct text out = {0};
	struct error error;
	size_t brackets = 0;
	for (const char* c = value; *c; c++)
		brackets += *c == '[' || *c == '{';
	bool good = json_repair_add(&json, value, size, &out) == size && json.state == REPAIR_DONE &&
	            out.size == size && memcmp(out.data, value, size) == 0;
	if (utf8 && brackets <= JSON_DEPTH && !strstr(value, "\\u"))
		good = good && json_check(value, size, &error);
	json_repair_free(&json);
	text_free(&out);
	return good;
}

static void take_calls(const struct answer_reader* r, struct answer* a, bool utf8) {
	for (int i = 0; i < r->tools.n; i++) {
		const struct tool_call* const call = &r->tools.call[i];
		expect(call->ended && call_is_tool(&r->tools, call->name));
		expect(r->tools.cut || (*call->arguments == '{' && is_json(call->arguments, utf8)));
		text_print(&a->calls, "%s(%s)", call->name, call->arguments);
	}
	a->n = r->tools.n;
}

/* Adds the text piece by piece, after its special token where it has one. */
static void add_text(struct answer_reader* r, const char* text, size_t size, size_t piece, size_t mark,
                     const char* name, struct answer* a) {
	size_t given = SIZE_MAX;
	for (size_t at = 0; at < size;) {
		const size_t left = size - at, n = left < piece ? left : piece;
		if (given == SIZE_MAX && mark < at + n) {
			answer_reader_mark(r, mark, name);
			given = mark;
		}
		answer_reader_add(r, text + at, n);
		take_texts(r, a);
		at += n;
	}
}

static struct answer read_answer(const uint8_t* choice, const char* text, size_t size, size_t piece) {
	static const char* const enforced[] = {NULL, "<tool_call>", "<minimax:tool_call>",
	                                       "]<]minimax[>[<tool_call>"};
	struct answer_reader r;
	struct answer a = {0};
	const enum reasoning_style style = (enum reasoning_style)(choice[0] % REASONING_STYLES);
	answer_reader_open(&r, style, reasoning_close(style) && (choice[1] & 1) != 0);
	tool_reader_open(&r.tools, tools, (choice[1] & 2) != 0, 1);
	r.tools.bound = (choice[1] & 4) != 0;
	r.tools.tagged = r.tools.bound || (choice[1] & 8) != 0;
	r.tools.cut = (choice[1] & 16) != 0;
	r.tools.checks = choice[1] & 32 ? NULL : &checks;
	r.tools.enforced = enforced[choice[1] >> 6];
	int n = 0;
	while (tool_marks[n])
		n++;
	add_text(&r, text, size, piece, choice[2], tool_marks[choice[3] % n], &a);
	answer_reader_end(&r);
	take_texts(&r, &a);
	expect(!r.failed);
	take_calls(&r, &a, utf8_valid(text, size));
	answer_reader_close(&r);
	return a;
}

static bool same(const struct text* a, const struct text* b) {
	return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	if (size < CHOICES)
		return 0;
	const char* const text = (const char*)data + CHOICES;
	size -= CHOICES;
	struct answer whole = read_answer(data, text, size, size),
	              cut = read_answer(data, text, size, 1 + data[0] / 8 % 5);
	expect(same(&whole.content, &cut.content) && same(&whole.reasoning, &cut.reasoning));
	expect(whole.n == cut.n && same(&whole.calls, &cut.calls));
	struct answer* const both[] = {&whole, &cut};
	for (int i = 0; i < 2; i++) {
		text_free(&both[i]->content);
		text_free(&both[i]->reasoning);
		text_free(&both[i]->calls);
	}
	return 0;
}
