/* A request's chat as a template sees it: what is joined, opened, renamed and refused; and that templates get
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "streams/chat_parts.h"
#include "streams/json_text.h"

static struct chat_parts parts;

static void reads(const char* object) {
	const char* field;
	struct error error = {""};
	assert_true(json_check(object, strlen(object), &error));
	if (!chat_parts_read(object, strlen(object), &parts, &field, &error))
		fail_msg("%s: %s", object, error.message);
}

static void refuses(const char* object, const char* wanted_field, const char* why) {
	const char* field;
	struct error error = {""};
	assert_true(json_check(object, strlen(object), &error));
	assert_false(chat_parts_read(object, strlen(object), &parts, &field, &error));
	assert_string_equal(field, wanted_field);
	if (!strstr(error.message, why))
		fail_msg("%s: \"%s\", expected \"%s\"", object, error.message, why);
	chat_parts_free(&parts);
}

static void keeps_what_is_written(void** state) {
	(void)state;
	reads("{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"n\": 1.0, \"name\": null, \"big\": "
	      "12345678901234567890}], \"tools\": [ {\"a\": 1.50} ], \"documents\": null, "
	      "\"chat_template_kwargs\": {}}");
	assert_string_equal(
	    parts.messages,
	    "[{\"role\": \"user\", \"content\": \"x\", \"n\": 1.0, \"big\": 12345678901234567890}]");
	assert_string_equal(parts.tools, "[ {\"a\": 1.50} ]");
	assert_null(parts.documents);
	assert_null(parts.variables);
	assert_null(parts.messages_as_written);
	chat_parts_free(&parts);
}

static void arguments_become_objects(void** state) {
	(void)state;
	reads("{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"i\", "
	      "\"function\": "
	      "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1.0}\"}}, {\"function\": {\"arguments\": \"no "
	      "{\"}}]}]}");
	assert_string_equal(
	    parts.messages,
	    "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"i\", \"function\": "
	    "{\"name\": \"f\", \"arguments\": {\"a\": 1.0}}}, {\"function\": {\"arguments\": \"no {\"}}]}]");
	assert_non_null(strstr(parts.messages_as_written, "\"arguments\": \"{\\\"a\\\": 1.0}\""));
	chat_parts_free(&parts);
}

/* Parts of reasoning go where templates read it; an answer, or a call's result, may have no content. */
static void reads_parts_of_any_client(void** state) {
	(void)state;
	reads("{\"messages\": [{\"role\": \"user\", \"content\": [\"a\", {\"text\": \"b\"}]}, {\"role\": "
	      "\"assistant\", "
	      "\"content\": [{\"type\": \"thinking\", \"thinking\": [{\"type\": \"text\", \"text\": \"h\"}]}, "
	      "{\"type\": \"reasoning\", \"text\": \"m\"}, {\"type\": \"text\", \"text\": \"yes\"}]}, {\"role\": "
	      "\"assistant\", \"content\": null}, {\"role\": \"tool\", \"content\": null}]}");
	assert_string_equal(
	    parts.messages,
	    "[{\"role\": \"user\", \"content\": \"ab\"}, {\"role\": \"assistant\", \"content\": \"yes\", "
	    "\"reasoning_content\": \"hm\", \"thinking\": \"hm\"}, {\"role\": \"assistant\", "
	    "\"content\": \"\"}, {\"role\": \"tool\", \"content\": \"\"}]");
	chat_parts_free(&parts);
	refuses("{\"messages\": [{\"role\": \"user\", \"content\": null}]}", "messages", "missing");
}

static void refuses_what_no_template_can_take(void** state) {
	(void)state;
	refuses("{}", "messages", "missing");
	refuses("{\"messages\": 5}", "messages", "not a list");
	refuses("{\"messages\": []}", "messages", "empty");
	refuses("{\"messages\": [[]]}", "messages", "messages[0] is an array");
	refuses(
	    "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}, {\"role\": \"robot\", \"content\": \"\"}]}",
	    "messages", "messages[1].role is \"robot\"");
	refuses("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}", "messages",
	        "only text");
	refuses("{\"messages\": [{\"role\": \"user\"}]}", "messages", "content is missing");
	const char* const rest[][3] = {
	    {"\"tools\": \"x\"", "tools", "not a list"},
	    {"\"tools\": [{}, 1]", "tools", "not an object"},
	    {"\"documents\": [[]]", "documents", "not an object"},
	    {"\"chat_template_kwargs\": [1]", "chat_template_kwargs", "not an object"},
	    {"\"chat_template_kwargs\": {\"tools\": []}", "chat_template_kwargs", "own tools"}};
	for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
		char object[300];
		snprintf(object, sizeof object, "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], %s}",
		         rest[i][0]);
		refuses(object, rest[i][1], rest[i][2]);
	}
}

/* The text that a template makes of the parts, by way of ids that are bytes. */
static char* prompt_of(const char* template_text, const char* object, struct error* error) {
	struct model model = {.tokenizer = tokenizer_bytes(300),
	                      .chat_template = (char*)(uintptr_t)template_text};
	struct named_template with_tools = {"tool_use", "tools: {{ tools|length }}"};
	model.named_template = &with_tools;
	model.n_named_templates = 1;
	struct token_list list = {0};
	size_t size;
	reads(object);
	char* text = NULL;
	if (chat_parts_encode(&parts, &model, &list, error))
		text = tokenizer_decode(model.tokenizer, list.id, list.n, true, true, &size);
	token_list_free(&list);
	tokenizer_free(model.tokenizer);
	chat_parts_free(&parts);
	return text;
}

static void makes(const char* template_text, const char* object, const char* want) {
	struct error error = {""};
	char* const text = prompt_of(template_text, object, &error);
	if (!text)
		fail_msg("%s", error.message);
	assert_string_equal(text, want);
	free(text);
}

static void templates_get_the_parts(void** state) {
	(void)state;
	static const char call[] = "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": "
	                           "{\"arguments\": \"{\\\"a\\\":  1}\"}}]}]}";
	makes("{{ messages[0].tool_calls[0].function.arguments|tojson }}", call, "{\"a\": 1}");
	/* joined to a text an object cannot be: the arguments are then as they were written */
	makes("{{ '>' + messages[0].tool_calls[0].function.arguments }}", call, ">{\"a\":  1}");
	static const char given[] =
	    "{\"messages\": [{\"role\": \"developer\", \"content\": \"d\"}], \"documents\": [{\"t\": 1}],"
	    " \"chat_template_kwargs\": {\"enable_thinking\": false, \"add_generation_prompt\": 0}}";
	makes("{{ messages[0].role }} {{ documents }} {{ enable_thinking }} {{ tools }} {{ add_generation_prompt "
	      "}}",
	      given, "system [{'t': 1}] False None 0");
	makes("default", "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"tools\": [{}, {}]}",
	      "tools: 2");
	struct error error = {""};
	assert_null(prompt_of("{{ raise_exception('not ' ~ messages[0].content) }}",
	                      "{\"messages\": [{\"role\": \"user\", \"content\": \"this\"}]}", &error));
	assert_non_null(strstr(error.message, "not this"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keeps_what_is_written),     cmocka_unit_test(arguments_become_objects),
	    cmocka_unit_test(reads_parts_of_any_client), cmocka_unit_test(refuses_what_no_template_can_take),
	    cmocka_unit_test(templates_get_the_parts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
