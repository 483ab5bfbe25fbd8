/* Chats for templates that have no tools, or no system messages, and answers that go on with a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "streams/chat_parts.h"

#define PLAIN                                                                                                \
	"{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}"                             \
	"{% if add_generation_prompt %}<assistant>{% endif %}"
#define USERS "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" PLAIN
#define DROPS                                                                                                \
	"{% for m in messages %}{% if m.role != 'system' %}<{{ m.role }}>{{ m.content }}</>{% endif %}{% "       \
	"endfor %}"

static void makes(const char* template_text, const char* object, const char* want) {
	struct model model = {.tokenizer = tokenizer_bytes(300),
	                      .chat_template = (char*)(uintptr_t)template_text};
	struct token_list list = {0};
	struct chat_parts parts;
	struct error error = {""};
	const char* field;
	size_t size;
	if (!chat_parts_read(object, strlen(object), &parts, &field, &error) ||
	    !chat_parts_encode(&parts, &model, &list, &error))
		fail_msg("%s: %s", object, error.message);
	char* text = tokenizer_decode(model.tokenizer, list.id, list.n, true, true, &size);
	assert_string_equal(text, want);
	free(text);
	token_list_free(&list);
	tokenizer_free(model.tokenizer);
	chat_parts_free(&parts);
}

static void system_messages_go_to_the_user(void** state) {
	(void)state;
	static const char chat[] =
	    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": "
	    "\"user\", \"content\": \"Hi\"}]}";
	makes(PLAIN, chat, "<system>Be brief.</><user>Hi</><assistant>");
	makes(USERS, chat, "<user>Be brief.\n\nHi</><assistant>");
	makes(DROPS, chat, "<user>Be brief.\n\nHi</>");
	makes(USERS, "{\"messages\": [{\"role\": \"system\", \"content\": \"Alone.\"}]}",
	      "<user>Alone.</><assistant>");
}

static void tools_are_listed_where_the_template_does_not(void** state) {
	(void)state;
	static const char chat[] =
	    "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], \"messages\": ["
	    "{\"role\": \"user\", \"content\": \"Go\"}, {\"role\": \"assistant\", \"content\": null, "
	    "\"tool_calls\": "
	    "[{\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}, {\"role\": \"tool\", "
	    "\"content\": \"2\"}, {\"role\": \"user\", \"content\": \"And?\"}]}";
#define TOOLS_TEXT                                                                                           \
	"You may call functions. They are given as JSON, one a line:\n<tools>\n"                                 \
	"{\"type\":\"function\",\"function\":{\"name\":\"f\"}}\n</tools>\n"                                      \
	"To call one, answer with its name and its arguments as JSON, between tags:\n<tool_call>\n"              \
	"{\"name\": \"NAME\", \"arguments\": {}}\n</tool_call>"
#define REST                                                                                                 \
	"Go</><assistant><tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call></><user>"        \
	"<tool_response>\n2\n</tool_response>\nAnd?</><assistant>"
	makes(PLAIN, chat, "<system>" TOOLS_TEXT "</><user>" REST);
	makes(USERS, chat, "<user>" TOOLS_TEXT "\n\n" REST);
	makes("{{ tools[0].function.name }}" PLAIN,
	      "{\"tools\": [{\"function\": {\"name\": \"f\"}}], \"messages\": [{\"role\": \"user\", \"content\": "
	      "\"x\"}]}",
	      "f<user>x</><assistant>");
}

static void an_answer_goes_on_with_a_message(void** state) {
	(void)state;
#define CHAT(more)                                                                                           \
	"{\"messages\": [{\"role\": \"user\", \"content\": \"Count\"}, {\"role\": \"assistant\", \"content\": "  \
	"\"1, 2, \"}]" more "}"
	makes(PLAIN, CHAT(""), "<user>Count</><assistant>1, 2,</><assistant>");
	makes(PLAIN, CHAT(", \"continue_final_message\": true"), "<user>Count</><assistant>1, 2, ");
	makes(PLAIN, CHAT(", \"add_generation_prompt\": false"), "<user>Count</><assistant>1, 2,</>");
}

static void older_fields_become_todays(void** state) {
	(void)state;
	makes(
	    "{{ messages | tojson }}",
	    "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"function_call\": {\"name\": \"f\", "
	    "\"arguments\": \"{}\"}}, {\"role\": \"function\", \"name\": \"f\", \"content\": \"2\"}, {\"role\": "
	    "\"assistant\", \"content\": null, \"refusal\": \"no\"}, {\"role\": \"assistant\", \"content\": "
	    "\"so\", "
	    "\"reasoning\": \"hm\"}]}",
	    "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"type\": \"function\", "
	    "\"function\": "
	    "{\"name\": \"f\", \"arguments\": {}}}]}, {\"role\": \"tool\", \"content\": \"2\", \"name\": \"f\"}, "
	    "{\"role\": \"assistant\", \"content\": \"no\"}, {\"role\": \"assistant\", \"content\": \"so\", "
	    "\"reasoning_content\": \"hm\", \"thinking\": \"hm\"}]");
	/* gpt-oss's template refuses both beside a call */
	makes(
	    "{% for m in messages %}{{ m.thinking }},{{ m.reasoning_content }};{% endfor %}",
	    "{\"messages\": [{\"role\": \"assistant\", \"thinking\": \"a\", \"content\": \"so\", \"tool_calls\": "
	    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]}, {\"role\": "
	    "\"assistant\", \"reasoning\": \"b\", \"reasoning_content\": \"b\", \"content\": \"\"}]}",
	    ",a;b,b;");
	makes("{{ enable_thinking }} {{ reasoning_effort }} {{ x }}",
	      "{\"enable_thinking\": false, \"reasoning_effort\": \"low\", \"chat_template_kwargs\": {\"x\": 1}, "
	      "\"messages\": [{\"role\": \"user\", \"content\": \"\"}]}",
	      "False low 1");
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(system_messages_go_to_the_user),
	    cmocka_unit_test(tools_are_listed_where_the_template_does_not),
	    cmocka_unit_test(an_answer_goes_on_with_a_message),
	    cmocka_unit_test(older_fields_become_todays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
