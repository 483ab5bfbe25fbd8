/* Strict tools: what a model calls is bound to their schemas. The other tools' arguments are any object. */
#include "streams/service/generation.h"

#include <stdlib.h>
#include <string.h>

#include "core/grammar/grammar.h"

enum { MAX_TOOLS = 128 };

struct tool_binding {
	const struct tool_syntax* syntax;
	struct grammar_call call[MAX_TOOLS];
	int n;
	struct text text[MAX_TOOLS]; /* before the arguments of the first call; of others without `all` */
	char* schema[MAX_TOOLS];
};

static const cJSON* function_of(const cJSON* tool) {
	const cJSON* function = cJSON_GetObjectItemCaseSensitive(tool, "function");
	return cJSON_IsObject(function) ? function : tool;
}

static bool is_strict(const cJSON* tool) {
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(function_of(tool), "strict"));
}

static bool add_tool(struct tool_binding* b, const cJSON* tool, struct api_error* e) {
	const char* name = api_text(function_of(tool), "name");
	const cJSON* schema = cJSON_GetObjectItemCaseSensitive(function_of(tool), "parameters");
	if (!name || b->n == MAX_TOOLS || strpbrk(name, "\"\\"))
		return api_refuse(e, "tools", "invalid_value", "Strict tools: at most %d, each with a name.",
		                  MAX_TOOLS);
	const int i = b->n++;
	text_print(&b->text[i], "%s%s%s%s", b->syntax->all, b->syntax->begin, name, b->syntax->middle);
	if (is_strict(tool) && cJSON_IsObject(schema))
		b->schema[i] = json_print(schema);
	if (b->text[i].failed || (is_strict(tool) && schema && !b->schema[i]))
		return api_no_memory(e);
	b->call[i] = (struct grammar_call){.first = b->text[i].data,
	                                   .before = b->text[i].data + strlen(b->syntax->all),
	                                   .schema = b->schema[i],
	                                   .after = b->syntax->end};
	return true;
}

/* What begins a call has to be text, and what ends a thought too: a grammar allows no special tokens. */
static bool writes_as_text(const struct tool_syntax* syntax, const struct generation* g) {
	const struct model* m = g->server->model;
	const struct tokenizer* t = m->tokenizer;
	const enum reasoning_style style = reasoning_style_of(model_chat_template(m, true));
	const int32_t trigger = g->begun.size ? -1 : tokenizer_find(t, syntax->trigger);
	const int32_t thought = style == REASONING_THINK ? tokenizer_find(t, "</think>") : -1;
	return (trigger < 0 || !tokenizer_is_special(t, trigger)) &&
	       (thought < 0 || !tokenizer_is_special(t, thought)) && style != REASONING_CHANNELS;
}

static bool compile_grammar(const struct tool_binding* b, struct generation* g, struct api_error* e) {
	struct error error = {""};
	const bool must = g->begun.size > 0;
	const struct grammar_calls calls = {.call = b->call,
	                                    .n = b->n,
	                                    .between = b->syntax->between,
	                                    .finish = b->syntax->finish,
	                                    .one = g->request.one_tool_call,
	                                    .begun = must ? g->begun.data : b->syntax->trigger,
	                                    .must = must,
	                                    .at_beginning = b->syntax->at_beginning};
	g->request.grammar = grammar_from_calls(&calls, &error);
	g->bound = g->request.grammar != NULL;
	return g->bound ||
	       api_refuse(e, "tools", "invalid_value", "A strict tool's parameters: %.300s.", error.message);
}

static bool bind_all(struct tool_binding* b, const cJSON* tools, struct generation* g, struct api_error* e) {
	bool strict = false;
	for (const cJSON* tool = tools->child; tool; tool = tool->next)
		strict |= is_strict(tool);
	if (!strict)
		return true;
	b->syntax = tool_syntax_of(model_chat_template(g->server->model, true));
	if (!b->syntax || !writes_as_text(b->syntax, g))
		return api_refuse(e, "tools", "unsupported_field",
		                  "'strict' is not supported for the way in which this model writes its calls.");
	if (g->request.grammar)
		return api_refuse(e, "tools", "unsupported_field",
		                  "Strict tools beside a form of the answer are not supported.");
	for (const cJSON* tool = tools->child; tool; tool = tool->next)
		if (!add_tool(b, tool, e))
			return false;
	return compile_grammar(b, g, e);
}

bool tools_bind(struct generation* g, struct api_error* e) {
	if (!g->request.tool_choice)
		return true;
	cJSON* tools = cJSON_Parse(g->request.parts.tools);
	struct tool_binding* b = calloc(1, sizeof *b);
	const bool good = tools && b ? bind_all(b, tools, g, e) : api_no_memory(e);
	for (int i = 0; b && i < b->n; i++) {
		text_free(&b->text[i]);
		cJSON_free(b->schema[i]);
	}
	free(b);
	cJSON_Delete(tools);
	return good;
}
