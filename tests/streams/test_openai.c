/* The request readers: OpenAI's defaults, and a 400 that names the field for everything else. */
#include "streams/service/openai.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct api_request q;
static struct api_error e;

static bool completion(const char* body) { return api_read_completion(body, strlen(body), 4096, &q, &e); }
static bool chat(const char* body) { return api_read_chat(body, strlen(body), 4096, &q, &e); }

static bool near(double a, double b) { return fabs(a - b) < 1e-12; }

static void defaults_of_a_completion(void** unused) {
	(void)unused;
	assert_true(completion("{\"model\": \"m\", \"prompt\": \"Once\"}"));
	assert_true(near(q.ask.temperature, 1) && near(q.ask.top_p, 1) && near(q.ask.min_p, 0));
	assert_int_equal(q.ask.max_tokens, 16);
	assert_int_equal(q.n, 1);
	assert_int_equal(q.n_prompts, 1);
	assert_string_equal(q.prompt[0].text, "Once");
	assert_true(near(q.ask.repetition_penalty, 0) && !q.bias); /* the model's own */
	assert_false(q.stream || q.echo || q.logprobs || q.has_seed || q.n_stop || q.task);
	api_request_free(&q);
}

static void every_field_of_a_completion(void** unused) {
	(void)unused;
	assert_true(completion(
	    "{\"model\": \"m\", \"prompt\": [\"a\", \"\"], \"max_tokens\": 7, \"temperature\": 0, \"top_p\": 0.5,"
	    "\"n\": 3, \"stream\": true, \"stream_options\": {\"include_usage\": true}, \"logprobs\": 0,"
	    "\"stop\": [\"\\n\", \"\\u00e9\"], \"seed\": -5, \"metadata\": {\"task\": \"math\", \"x\": \"y\"},"
	    "\"user\": \"u\", \"best_of\": 3, \"suffix\": null, \"presence_penalty\": -0.5, \"logit_bias\": "
	    "{\"4095\": 3, \"0\": -100},"
	    "\"frequency_penalty\": 2.0, \"repetition_penalty\": 1.5, \"echo\": false, \"top_k\": 40, \"min_p\": "
	    "0.1}"));
	assert_int_equal(q.n_prompts, 2);
	assert_int_equal(q.prompt[1].text_size, 0);
	assert_true(near(q.ask.temperature, 0) && near(q.ask.top_p, 0.5) && near(q.ask.min_p, 0.1));
	assert_true(q.stream && q.include_usage && q.logprobs && q.has_seed);
	assert_int_equal(q.top_logprobs, 0);
	assert_int_equal((int64_t)q.ask.seed, -5);
	assert_int_equal(q.n_stop, 2);
	assert_string_equal(q.stop[1], "\xc3\xa9");
	assert_string_equal(q.task, "math");
	assert_int_equal(q.ask.top_k, 40);
	assert_true(near(q.ask.presence_penalty, -0.5) && near(q.ask.frequency_penalty, 2) &&
	            near(q.ask.repetition_penalty, 1.5));
	assert_int_equal(q.n_bias, 2);
	assert_true(q.bias[0].token == 0 && near((double)q.bias[0].bias, -100) && q.bias[1].token == 4095);
	api_request_free(&q);
	/* as llama.cpp takes them: the last of a token holds */
	assert_true(
	    completion("{\"prompt\": \"a\", \"logit_bias\": [[9, 1], [4095, false], [9, 2.5], [0, -3]]}"));
	assert_int_equal(q.n_bias, 3);
	assert_true(q.bias[0].token == 0 && q.bias[1].token == 9 && near((double)q.bias[1].bias, 2.5));
	assert_true(q.bias[2].token == 4095 && near((double)q.bias[2].bias, -100));
	api_request_free(&q);
}

static void the_model_may_be_left_out(void** unused) {
	(void)unused;
	assert_true(completion("{\"prompt\": \"Once\"}"));
	assert_null(q.model);
	api_request_free(&q);
	assert_true(chat("{\"model\": null, \"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}"));
	assert_null(q.model);
	api_request_free(&q);
}

static void prompts_as_tokens(void** unused) {
	(void)unused;
	assert_true(completion("{\"model\": \"m\", \"prompt\": [1, 2, 4095]}"));
	assert_int_equal(q.n_prompts, 1);
	assert_int_equal(q.prompt[0].n, 3);
	assert_int_equal(q.prompt[0].id[2], 4095);
	api_request_free(&q);
	assert_true(completion("{\"model\": \"m\", \"prompt\": [[1], [2, 3]]}"));
	assert_int_equal(q.n_prompts, 2);
	assert_int_equal(q.prompt[1].id[1], 3);
	api_request_free(&q);
}

static void a_chat(void** unused) {
	(void)unused;
	assert_true(
	    chat("{\"model\": \"m\", \"messages\": [{\"role\": \"developer\", \"content\": \"Be brief.\"},"
	         "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Hi \"},"
	         "{\"type\": \"text\", \"text\": \"\\ud83d\\ude00\"}]},"
	         "{\"role\": \"assistant\", \"content\": \"\", \"refusal\": null}],"
	         "\"max_completion_tokens\": 9, \"logprobs\": true, \"top_logprobs\": 20,"
	         "\"response_format\": {\"type\": \"text\"}, \"tools\": [], \"store\": false}"));
	assert_int_equal(q.parts.n_messages, 3);
	assert_string_equal(q.parts.messages, "[{\"role\": \"system\", \"content\": \"Be brief.\"}, "
	                                      "{\"role\": \"user\", \"content\": \"Hi \xf0\x9f\x98\x80\"}, "
	                                      "{\"role\": \"assistant\", \"content\": \"\"}]");
	assert_int_equal(q.ask.max_tokens, 9);
	assert_true(q.logprobs);
	assert_int_equal(q.top_logprobs, 20);
	api_request_free(&q);
	assert_true(chat("{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}"));
	assert_int_equal(q.ask.max_tokens, 0); /* what the context leaves */
	api_request_free(&q);
	/* hints change nothing */
	assert_true(
	    chat("{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"store\": true, "
	         "\"reasoning_effort\": \"low\", \"verbosity\": \"low\", \"prompt_cache_key\": \"k\", "
	         "\"safety_identifier\": \"s\", \"service_tier\": \"flex\"}"));
	api_request_free(&q);
}

static void refused(bool is_chat, const char* body, const char* param) {
	const bool taken = is_chat ? chat(body) : completion(body);
	if (taken || e.status != 400 || strcmp(e.param, param) != 0)
		print_error("%s\n  gave %s: %d %s (%s)\n", body, taken ? "a request" : "an error", e.status,
		            e.message, e.param);
	assert_false(taken);
	assert_int_equal(e.status, 400);
	assert_string_equal(e.param, param);
	assert_true(strlen(e.message) > 10);
	assert_null(q.prompt);
}

static void bad_fields_are_named(void** unused) {
	(void)unused;
	static const char* const cases[][2] = {
	    /* members beside the model and the prompt, and the one that is named */
	    {"\"temperature\": \"hot\"", "temperature"},
	    {"\"temperature\": -0.1", "temperature"},
	    {"\"temperature\": 2.5", "temperature"},
	    {"\"temperature\": 1e999", "temperature"},
	    {"\"temperature\": true", "temperature"},
	    {"\"top_p\": 1.01", "top_p"},
	    {"\"top_p\": []", "top_p"},
	    {"\"max_tokens\": -2", "max_tokens"},
	    {"\"max_tokens\": 1.5", "max_tokens"},
	    {"\"max_tokens\": 99999999999999999999", "max_tokens"},
	    {"\"max_tokens\": \"5\"", "max_tokens"},
	    {"\"n\": 0", "n"},
	    {"\"n\": 129", "n"},
	    {"\"n\": {}", "n"},
	    {"\"stream\": 1", "stream"},
	    {"\"stream_options\": {\"include_usage\": true}", "stream_options"},
	    {"\"stream\": true, \"stream_options\": {\"include_usage\": 1}", "stream_options.include_usage"},
	    {"\"stream\": true, \"stream_options\": []", "stream_options"},
	    {"\"logprobs\": true", "logprobs"},
	    {"\"logprobs\": 21", "logprobs"},
	    {"\"stop\": 5", "stop"},
	    {"\"stop\": \"\"", "stop"},
	    {"\"stop\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\", \"k\", "
	     "\"l\", \"m\", \"n\", \"o\", \"p\", \"q\"]",
	     "stop"},
	    {"\"ignore_eos\": 1", "ignore_eos"},
	    {"\"stop_token_ids\": [4096]", "stop_token_ids"},
	    {"\"stop_token_ids\": [1.5]", "stop_token_ids"},
	    {"\"stop_token_ids\": 1", "stop_token_ids"},
	    {"\"ignore_eos\": true, \"guided_regex\": \"a\"", "ignore_eos"},
	    {"\"stop\": [null]", "stop"},
	    {"\"seed\": 0.5", "seed"},
	    {"\"seed\": 1e30", "seed"},
	    {"\"seed\": \"1\"", "seed"},
	    {"\"metadata\": []", "metadata"},
	    {"\"metadata\": {\"task\": 5}", "metadata"},
	    {"\"metadata\": {\"a\": {}}", "metadata"},
	    {"\"user\": 5", "user"},
	    {"\"suffix\": 5", "suffix"},
	    {"\"suffix\": \"end\", \"echo\": true", "suffix"},
	    {"\"best_of\": 2", "best_of"},
	    {"\"presence_penalty\": 2.5", "presence_penalty"},
	    {"\"repetition_penalty\": 0", "repetition_penalty"},
	    {"\"logit_bias\": {\"05\": 1}", "logit_bias"},
	    {"\"logit_bias\": {\"4096\": 1}", "logit_bias"},
	    {"\"logit_bias\": {\"-1\": 1}", "logit_bias"},
	    {"\"logit_bias\": {\"\": 1}", "logit_bias"},
	    {"\"logit_bias\": {\"99999999999999999999999\": 1}", "logit_bias"},
	    {"\"logit_bias\": {\"5\": 101}", "logit_bias"},
	    {"\"logit_bias\": {\"5\": null}", "logit_bias"},
	    {"\"logit_bias\": [5]", "logit_bias"},
	    {"\"logit_bias\": [[5]]", "logit_bias"},
	    {"\"logit_bias\": [[5, 1, 1]]", "logit_bias"},
	    {"\"logit_bias\": [[4096, 1]]", "logit_bias"},
	    {"\"logit_bias\": [[-1, 1]]", "logit_bias"},
	    {"\"logit_bias\": [[1.5, 1]]", "logit_bias"},
	    {"\"logit_bias\": [[1e300, 1]]", "logit_bias"},
	    {"\"logit_bias\": [[\"a\", 1]]", "logit_bias"},
	    {"\"logit_bias\": [[5, 101]]", "logit_bias"},
	    {"\"logit_bias\": [[5, true]]", "logit_bias"},
	    {"\"logit_bias\": [{\"5\": 1}]", "logit_bias"},
	    {"\"frequency_penalty\": \"0\"", "frequency_penalty"},
	    {"\"logit_bias\": {\"50256\": -100}", "logit_bias"},
	    {"\"top_k\": -2", "top_k"},
	    {"\"structured_outputs\": []", "structured_outputs"},
	    {"\"structured_outputs\": {\"structural_tag\": {}}", "structured_outputs"},
	    {"\"structured_outputs\": {\"regex\": \"a\", \"choice\": [\"a\"]}", "structured_outputs"},
	    {"\"min_p\": 2", "min_p"},
	    {"\"n\": 1, \"n\": 2", "n"},
	    {"\"stop\": \"a\", \"\\u0073top\": \"b\"", "stop"}, /* one name, written in two ways */
	};
	char body[512];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(body, sizeof body, "{\"model\": \"m\", \"prompt\": \"p\", %s}", cases[i][0]);
		refused(false, body, cases[i][1]);
	}
}

/* A field that nobody knows is named, not refused; null is none. */
static void unknown_fields_are_ignored(void** unused) {
	(void)unused;
	assert_true(
	    completion("{\"prompt\": \"p\", \"file\": \"/etc/passwd\", \"messages\": [], \"a b\": 1, \"audio\": "
	               "null, \"stream\": true, \"stream_options\": {\"other\": 1, \"none\": null}}"));
	assert_string_equal(q.ignored.data, "file, messages, a?, stream_options.other");
	api_request_free(&q);
	assert_true(
	    chat("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"audio\": null, \"top_k\": -1, "
	         "\"top_logprobs\": 0, \"cache_prompt\": true}"));
	assert_int_equal(q.ignored.size, 0);
	assert_int_equal(q.ask.top_k, 0);
	api_request_free(&q);
}

static void no_tokens_and_no_limit(void** unused) {
	(void)unused;
	assert_true(completion("{\"prompt\": \"p\", \"max_tokens\": 0, \"echo\": true, \"logprobs\": 1}"));
	assert_true(q.prompt_only && q.ask.max_tokens == 1);
	api_request_free(&q);
	assert_true(completion("{\"prompt\": \"p\", \"max_tokens\": -1}"));
	assert_true(!q.prompt_only && q.ask.max_tokens == 0);
	api_request_free(&q);
}

static void forms_by_all_their_names(void** unused) {
	(void)unused;
	static const char* const formats[] = {
	    "\"structured_outputs\": {\"json\": {\"type\": \"object\"}, \"regex\": null}",
	    "\"structured_outputs\": {\"choice\": [\"yes\", \"no\"]}",
	    "\"response_format\": {\"type\": \"json_object\", \"schema\": {\"const\": 1}}",
	    "\"guided_regex\": \"a\""};
	for (int i = 0; i < 4; i++) {
		char body[256];
		snprintf(body, sizeof body, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], %s}",
		         formats[i]);
		assert_true(chat(body));
		assert_non_null(q.grammar);
		assert_int_equal(q.schema != NULL, i == 0 || i == 2);
		api_request_free(&q);
	}
}

static void bad_prompts(void** unused) {
	(void)unused;
	static const char* const prompts[] = {"5",      "true",         "{}",         "[]",     "[[]]",
	                                      "[null]", "[\"a\", 1]",   "[1, \"a\"]", "[4096]", "[-1]",
	                                      "[1.5]",  "[[1], \"a\"]", "[1e99]",     "[[[1]]]"};
	char body[256];
	for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
		snprintf(body, sizeof body, "{\"model\": \"m\", \"prompt\": %s}", prompts[i]);
		refused(false, body, "prompt");
	}
	refused(false, "{\"model\": \"m\"}", "prompt");
	refused(false, "{\"model\": 5, \"prompt\": \"p\"}", "model");
}

static void bad_messages(void** unused) {
	(void)unused;
	static const char* const cases[][2] = {
	    {"[]", "messages"},
	    {"{}", "messages"},
	    {"null", "messages"},
	    {"[5]", "messages"},
	    {"[{\"role\": \"user\"}]", "messages"},
	    {"[{\"content\": \"x\"}]", "messages"},
	    {"[{\"role\": \"robot\", \"content\": \"x\"}]", "messages"},
	    {"[{\"role\": \"assistant\", \"tool_calls\": {}}]", "messages"},
	    {"[{\"role\": \"assistant\", \"tool_calls\": [1]}]", "messages"},
	    {"[{\"role\": \"user\", \"content\": 5}]", "messages"},
	    {"[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]", "messages"},
	    {"[{\"role\": \"user\", \"content\": [5]}]", "messages"},
	};
	char body[512];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(body, sizeof body, "{\"model\": \"m\", \"messages\": %s}", cases[i][0]);
		refused(true, body, cases[i][1]);
	}
	const char* good = "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"x\"}], %s}";
	static const char* const members[][2] = {
	    {"\"tools\": {\"type\": \"function\"}", "tools"},
	    {"\"tools\": [\"function\"]", "tools"},
	    {"\"documents\": 5", "documents"},
	    {"\"chat_template_kwargs\": []", "chat_template_kwargs"},
	    {"\"chat_template_kwargs\": [1]", "chat_template_kwargs"},
	    {"\"chat_template_kwargs\": {\"messages\": []}", "chat_template_kwargs"},
	    {"\"response_format\": {\"type\": \"yaml\"}", "response_format"},
	    {"\"response_format\": {\"type\": \"json_schema\"}", "response_format"},
	    {"\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": {\"not\": {}}}}",
	     "response_format"},
	    {"\"guided_regex\": \"(\"", "guided_regex"},
	    {"\"guided_choice\": [1]", "guided_choice"},
	    {"\"guided_regex\": \"a\", \"guided_choice\": [\"a\"]", "guided_choice"},
	    {"\"response_format\": {\"type\": \"text\", \"x\": 1}", "response_format"},
	    {"\"top_logprobs\": 2", "top_logprobs"},
	    {"\"logprobs\": 2", "logprobs"},
	    {"\"max_tokens\": 5, \"max_completion_tokens\": 6", "max_completion_tokens"},
	    {"\"max_tokens\": 0", "max_tokens"},
	    {"\"modalities\": [\"audio\"]", "modalities"},
	    {"\"tool_choice\": \"required\"", "tool_choice"},
	    {"\"tool_choice\": \"perhaps\", \"tools\": [{\"name\": \"g\"}]", "tool_choice"},
	    {"\"tool_choice\": {\"function\": {\"name\": \"f\"}}, \"tools\": [{\"name\": \"g\"}]", "tool_choice"},
	    {"\"tool_choice\": {\"function\": {\"name\": \"a b\"}}, \"tools\": [{\"name\": \"g\"}]",
	     "tool_choice"},
	    {"\"parallel_tool_calls\": 1", "parallel_tool_calls"},
	};
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		snprintf(body, sizeof body, good, members[i][0]);
		refused(true, body, members[i][1]);
	}
}

static void bad_bytes(void** unused) {
	(void)unused;
	static const char* const bodies[] = {
	    "",
	    " ",
	    "null",
	    "5",
	    "[]",
	    "\"x\"",
	    "{",
	    "{}}",
	    "{\"a\":}",
	    "{a: 1}",
	    "{'a': 1}",
	    "{\"a\": 01}",
	    "{\"a\": +1}",
	    "{\"a\": .5}",
	    "{\"a\": NaN}",
	    "{\"a\": \"\xff\"}",           /* not UTF-8 */
	    "{\"a\": \"\xc0\xaf\"}",       /* overlong */
	    "{\"a\": \"\xed\xa0\x80\"}",   /* a surrogate as bytes */
	    "{\"a\": \"\\ud800\"}",        /* without its pair */
	    "{\"a\": \"\\udc00\\ud800\"}", /* the wrong way round */
	    "{\"a\": \"\\u0000\"}",
	    "{\"a\": \"\x01\"}",
	    "{\"a\": \"\\x41\"}",
	    "{\"a\": 1,}",
	    "{\"a\": 1} x",
	};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		assert_false(completion(bodies[i]));
		assert_int_equal(e.status, 400);
		assert_false(chat(bodies[i]));
		assert_int_equal(e.status, 400);
	}
}

/* Bodies made to hurt: nesting, values, keys. Refused before memory is spent on them. */
static void hostile_sizes(void** unused) {
	(void)unused;
	enum { DEEP = 1000000 };
	char* body = malloc(8 * DEEP);
	memset(body, '[', DEEP);
	assert_false(api_read_completion(body, DEEP, 4096, &q, &e));
	assert_int_equal(e.status, 400);
	for (int i = 0; i < DEEP; i++)
		memcpy(body + 5 * i, "{\"a\":", 5);
	assert_false(api_read_completion(body, 5 * DEEP, 4096, &q, &e));
	size_t n = (size_t)sprintf(body, "{\"model\": \"m\", \"prompt\": [1");
	for (int i = 0; i < DEEP; i++, n += 2)
		memcpy(body + n, ",1", 2);
	memcpy(body + n, "]}", 2);
	assert_false(api_read_completion(body, n + 2, 4096, &q, &e));
	assert_non_null(strstr(e.message, "values"));
	n = (size_t)sprintf(body, "{\"model\": \"m\", \"prompt\": \"x\"");
	for (int i = 0; i < API_MAX_KEYS; i++)
		n += (size_t)sprintf(body + n, ", \"k%d\": 1", i);
	n += (size_t)sprintf(body + n, "}");
	assert_false(api_read_completion(body, n, 4096, &q, &e));
	assert_non_null(strstr(e.message, "members"));
	free(body);
}

/* Writes a body with a map of that many tokens; `last` is one more member. */
static bool biases(int first, int past, const char* last) {
	char* body = malloc((size_t)(past - first) * 16 + 100);
	size_t n = (size_t)sprintf(body, "{\"prompt\": \"a\", \"logit_bias\": {");
	for (int i = first; i < past; i++)
		n += (size_t)sprintf(body + n, "\"%d\": -100, ", i);
	sprintf(body + n, "%s}}", last);
	const bool taken = completion(body);
	free(body);
	return taken;
}

/* Clients forbid thousands of tokens. Larger maps, and names given twice, are refused in good time. */
static void maps_of_numbers(void** unused) {
	(void)unused;
	assert_true(biases(0, 4095, "\"4095\": 1"));
	assert_int_equal(q.n_bias, 4096);
	assert_true(q.bias[4095].token == 4095 && near((double)q.bias[4095].bias, 1));
	api_request_free(&q);
	assert_false(biases(0, 4095, "\"17\": 1"));
	assert_string_equal(e.param, "17");
	assert_string_equal(e.code, "duplicate_key");
	assert_false(biases(0, 4095, "\"4095\": \"1\"")); /* no map of numbers */
	assert_non_null(strstr(e.message, "more than 1024 members"));
	assert_false(biases(0, API_MAX_NUMBERS, "\"9999\": 1"));
	assert_non_null(strstr(e.message, "more than 8192 members"));
}

static void errors_in_openai_shape(void** unused) {
	(void)unused;
	api_refuse(&e, "a\"b", "code", "It said \"%s\".\n", "no");
	char* text = api_error_text(&e);
	cJSON* json = cJSON_Parse(text);
	const cJSON* error = cJSON_GetObjectItem(json, "error");
	assert_string_equal(cJSON_GetObjectItem(error, "message")->valuestring, "It said \"no\".\n");
	assert_string_equal(cJSON_GetObjectItem(error, "type")->valuestring, "invalid_request_error");
	assert_string_equal(cJSON_GetObjectItem(error, "param")->valuestring, "a\"b");
	assert_string_equal(cJSON_GetObjectItem(error, "code")->valuestring, "code");
	cJSON_Delete(json);
	free(text);
}

static void tools_may_or_must_be_called(void** unused) {
	(void)unused;
#define ASK(rest)                                                                                            \
	"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": [{\"type\": \"function\", "       \
	"\"function\": "                                                                                         \
	"{\"name\": \"f\"}}]" rest "}"
	assert_true(chat(ASK("")));
	assert_true(q.tool_choice == TOOLS_AUTO && !q.one_tool_call && q.parts.tools);
	api_request_free(&q);
	assert_true(chat(ASK(", \"tool_choice\": \"none\"")));
	assert_true(q.tool_choice == TOOLS_NONE && !q.parts.tools); /* the template receives none */
	api_request_free(&q);
	assert_true(chat(ASK(", \"tool_choice\": \"required\", \"parallel_tool_calls\": false")));
	assert_true(q.tool_choice == TOOLS_REQUIRED && !q.tool_name && q.one_tool_call);
	api_request_free(&q);
	assert_true(chat(ASK(", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}}")));
	assert_string_equal(q.tool_name, "f");
	api_request_free(&q);
	assert_true(chat("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": []}"));
	assert_true(q.tool_choice == TOOLS_NONE);
	api_request_free(&q);
}

/* A word of a tool choice may be an object's type, and a name may be any name. */
static void tool_choices(void** unused) {
	(void)unused;
	static const char tools[] = "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a b:c\"}}]";
	static const struct {
		const char* choice;
		int is;
	} cases[] = {{"\"auto\"", TOOLS_AUTO},
	             {"{\"type\": \"auto\"}", TOOLS_AUTO},
	             {"{\"type\": \"none\"}", TOOLS_NONE},
	             {"{\"type\": \"any\"}", TOOLS_REQUIRED},
	             {"{\"type\": \"required\"}", TOOLS_REQUIRED},
	             {"{\"type\": \"tool\", \"name\": \"a b:c\"}", TOOLS_REQUIRED},
	             {"{\"type\": \"function\", \"function\": {\"name\": \"a b:c\"}}", TOOLS_REQUIRED}};
	char body[512];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(body, sizeof body,
		         "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], %s, \"tool_choice\": %s}", tools,
		         cases[i].choice);
		assert_true(chat(body));
		assert_int_equal(q.tool_choice, cases[i].is);
		assert_true(!q.tool_name || strcmp(q.tool_name, "a b:c") == 0);
		api_request_free(&q);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tool_choices),
	    cmocka_unit_test(defaults_of_a_completion),
	    cmocka_unit_test(every_field_of_a_completion),
	    cmocka_unit_test(the_model_may_be_left_out),
	    cmocka_unit_test(prompts_as_tokens),
	    cmocka_unit_test(a_chat),
	    cmocka_unit_test(bad_fields_are_named),
	    cmocka_unit_test(unknown_fields_are_ignored),
	    cmocka_unit_test(no_tokens_and_no_limit),
	    cmocka_unit_test(forms_by_all_their_names),
	    cmocka_unit_test(bad_prompts),
	    cmocka_unit_test(bad_messages),
	    cmocka_unit_test(bad_bytes),
	    cmocka_unit_test(hostile_sizes),
	    cmocka_unit_test(maps_of_numbers),
	    cmocka_unit_test(errors_in_openai_shape),
	    cmocka_unit_test(tools_may_or_must_be_called),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
