/* Chat prompts: sets the template's variables, renders it, and encodes the result. */
#include "core/text/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"
#include "core/jinja/jinja.h"
#include "core/text/tokenizer_parts.h"

/* Templates write a message's role between the marks of a special token ("<|" + role + "|>"). So these words
 * are trusted as values of "role", although the request brought them. */
static const char roles[] = "system developer user assistant tool function";

enum { MAX_VARIABLES = 11, DATE_SIZE = 16 };

struct variables {
	struct jinja_variable variable[MAX_VARIABLES];
	int n;
};

static bool no_template(const char* template_text, struct error* error) {
	return template_text ||
	       error_set(error,
	                 "the model has no chat_template; give the whole prompt with -p, or a template with "
	                 "--chat-template");
}

static bool explain_broken(struct error* error) {
	char why[sizeof error->message];
	snprintf(why, sizeof why, "%s", error->message);
	return error_set(error, "chat template, %.380s (--chat-template gives another)", why);
}

bool chat_template_check(const char* template_text, struct error* error) {
	return no_template(template_text, error) &&
	       (jinja_check(template_text, strlen(template_text), error) || explain_broken(error));
}

static void add_variable(struct variables* v, const char* name, enum jinja_form form, const char* text,
                         size_t size) {
	v->variable[v->n++] = (struct jinja_variable){name, form, text, size};
}

static void add_json(struct variables* v, const char* name, struct chat_json json, const char* otherwise) {
	add_variable(v, name, JINJA_JSON, json.text ? json.text : otherwise,
	             json.text ? json.size : strlen(otherwise));
}

/* Left undefined if the model has no such token, as in transformers. */
static void add_token(struct variables* v, const char* name, const struct tokenizer* t, int32_t id) {
	if (id >= 0 && id < t->vocabulary.n)
		add_variable(v, name, JINJA_WORDS, vocabulary_text(&t->vocabulary, id),
		             t->vocabulary.piece[id].text_size);
}

/* The day that templates of Llama 3.1 and 3.3 (date_string) and of FireFunction (datetime) leave to the
 * program. Without these variables the first two claim a day in July 2024, and the third fails. No time of
 * day is in them, so a conversation's prompt stays the same until midnight and its cached prefix can be used.
 */
static void add_dates(struct variables* v, const struct tm* today, char dates[2][DATE_SIZE]) {
	if (strftime(dates[0], DATE_SIZE, "%d %b %Y", today) > 0)
		add_variable(v, "date_string", JINJA_WORDS, dates[0], strlen(dates[0]));
	if (strftime(dates[1], DATE_SIZE, "%b %d %Y", today) > 0)
		add_variable(v, "datetime", JINJA_WORDS, dates[1], strlen(dates[1]));
}

/* FireFunction's template reads the tools as a text, which its users have to pass. malloc'd; NULL: another
 * template, or no memory. */
static char* tools_as_text(const char* template_text, const struct chat_json* tools) {
	if (!strstr(template_text, "functools["))
		return NULL;
	cJSON* const text = cJSON_CreateString(tools->text ? tools->text : "");
	char* const quoted = text ? json_print(text) : NULL;
	cJSON_Delete(text);
	return quoted;
}

static time_t time_of_request(const struct chat_request* request) {
	const char* const given = getenv("SOURCE_DATE_EPOCH");
	if (request->now)
		return request->now;
	return given && *given ? (time_t)strtoll(given, NULL, 10) : time(NULL);
}

/* Cuts the text at the last mark, where the answer continues. A message may contain earlier ones. */
static bool cut_off(struct jinja_text* text, struct error* error) {
	const size_t n = strlen(CHAT_GOES_ON);
	char* at = NULL;
	for (char* next = text->data; (next = strstr(next, CHAT_GOES_ON)); next += n)
		at = next;
	if (!at)
		return error_set(error,
		                 "the chat template leaves out the last message, and the answer has to continue it");
	*at = '\0';
	text->size = (size_t)(at - text->data);
	while (text->n_foreign > 0 && text->foreign[text->n_foreign - 1].start >= text->size)
		text->n_foreign--;
	if (text->n_foreign > 0 && text->foreign[text->n_foreign - 1].end > text->size)
		text->foreign[text->n_foreign - 1].end = text->size;
	return true;
}

static bool render_template(const char* template_text, const struct tokenizer* t,
                            const struct chat_request* request, struct jinja_text* out, struct error* error) {
	struct variables v = {.n = 0};
	const time_t now = time_of_request(request);
	struct tm today;
	char dates[2][DATE_SIZE];
	if (!no_template(template_text, error))
		return false;
	add_token(&v, "bos_token", t, tokenizer_bos(t));
	add_token(&v, "eos_token", t, tokenizer_eos(t));
	add_token(&v, "unk_token", t, t->unknown);
	add_json(&v, "messages", request->messages, "[]");
	add_json(&v, "tools", request->tools, "null");
	add_json(&v, "documents", request->documents, "null");
	add_json(&v, "add_generation_prompt", (struct chat_json){0},
	         request->no_generation_prompt || request->goes_on ? "false" : "true");
	if (localtime_r(&now, &today))
		add_dates(&v, &today, dates);
	char* const functions = tools_as_text(template_text, &request->tools);
	if (functions)
		add_variable(&v, "functions", JINJA_JSON, functions, strlen(functions));
	if (request->variables.text)
		add_variable(&v, "chat_template_kwargs", JINJA_MEMBERS, request->variables.text,
		             request->variables.size);
	const struct jinja_call call = {.source = template_text,
	                                .size = strlen(template_text),
	                                .variable = v.variable,
	                                .n_variables = v.n,
	                                .now = now,
	                                .trusted_member = "role",
	                                .trusted_words = roles};
	struct error why = {""};
	const enum jinja_outcome outcome = jinja_render(&call, out, &why);
	cJSON_free(functions);
	if (outcome == JINJA_RAISED)
		return error_set(error, "the chat template refuses this conversation: %.400s", why.message);
	*error = outcome == JINJA_DONE ? *error : why;
	if (outcome != JINJA_DONE)
		return explain_broken(error);
	if (!request->goes_on || cut_off(out, error))
		return true;
	jinja_text_free(out);
	return false;
}

char* chat_template_text(const char* template_text, const struct tokenizer* t,
                         const struct chat_request* request, size_t* size, struct error* error) {
	struct jinja_text text;
	if (!render_template(template_text, t, request, &text, error))
		return NULL;
	char* const data = text.data;
	*size = text.size;
	text.data = NULL;
	jinja_text_free(&text);
	return data;
}

bool chat_template_encode(const char* template_text, const struct tokenizer* t,
                          const struct chat_request* request, struct token_list* out, struct error* error) {
	struct jinja_text text;
	if (!render_template(template_text, t, request, &text, error))
		return false;
	const struct plain_ranges foreign = {.range = text.foreign, .n = text.n_foreign};
	const bool good = tokenizer_encode_prompt(t, text.data, text.size, &foreign, out);
	jinja_text_free(&text);
	return good || error_set(error, "out of memory for a chat prompt");
}
