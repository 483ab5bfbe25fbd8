/* Makes grammars that bind a model's calls to the tools' names and schemas: when a call is forced, when a
 * tool is strict, and when the answer keeps a format beside tools. The grammar names the special tokens that
 * the model writes its calls with. */
#include "streams/service/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/grammar.h"

enum { MAX_TOOLS = 1024, MAX_MARK = 32 };

struct tool_binding {
	struct grammar_call call[MAX_TOOLS];
	int n;
	struct text text[MAX_TOOLS];  /* before the arguments of the first call; in further calls without `all` */
	struct text later[MAX_TOOLS]; /* before those of further calls, where the syntax writes them otherwise */
	char* schema[MAX_TOOLS];
	/* the syntax, with special tokens marked */
	struct text all, begin, middle, later_middle, end, close, between, finish, trigger, begun;
	struct text before_name, before_value[GRAMMAR_TYPES], after_value;
	struct grammar_tags tags;
	char passes[MAX_MARK];
};

static const cJSON* function_of(const cJSON* tool) {
	const cJSON* function = cJSON_GetObjectItemCaseSensitive(tool, "function");
	return cJSON_IsObject(function) ? function : tool;
}

static bool is_strict(const cJSON* tool) {
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(function_of(tool), "strict"));
}

static bool is_forced(const struct generation* g) { return g->request.tool_choice == TOOLS_REQUIRED; }

/* ---- special tokens ------------------------------------------------------------------------------ */

/* True when the text begins with a special token of the model that marks calls. */
static size_t special_at(const struct tokenizer* t, const char* text) {
	static const char* const channels[] = {"<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", NULL};
	const char* const* const lists[] = {tool_marks, channels};
	for (int list = 0; list < 2; list++)
		for (int i = 0; lists[list][i]; i++) {
			const char* mark = lists[list][i];
			if (strncmp(text, mark, strlen(mark)) != 0)
				continue;
			const int32_t token = tokenizer_find(t, mark);
			return token >= 0 && tokenizer_is_special(t, token) ? strlen(mark) : 0;
		}
	return 0;
}

/* The text as a grammar's literal. */
static void put_marked(struct text* out, const struct tokenizer* t, const char* text) {
	while (*text) {
		const size_t n = special_at(t, text);
		if (n > 0)
			text_put(out, GRAMMAR_SPECIAL);
		text_add(out, text, n > 0 ? n : 1);
		text += n > 0 ? n : 1;
	}
}

static void mark_tags(struct tool_binding* b, const struct tokenizer* t, const struct grammar_tags* tags) {
	put_marked(&b->before_name, t, tags->before_name);
	put_marked(&b->after_value, t, tags->end);
	b->tags = (struct grammar_tags){.before_name = text_or_empty(&b->before_name),
	                                .end = text_or_empty(&b->after_value),
	                                .mark = tags->mark,
	                                .end_name = tags->end_name,
	                                .between = tags->between,
	                                .whole = tags->whole};
	for (int i = 0; i < GRAMMAR_TYPES; i++) {
		put_marked(&b->before_value[i], t, tags->before_value[i]);
		b->tags.before_value[i] = text_or_empty(&b->before_value[i]);
	}
}

static void mark_syntax(struct tool_binding* b, const struct generation* g) {
	const struct tokenizer* t = g->server->model->tokenizer;
	const struct tool_syntax* s = g->syntax;
	const struct {
		struct text* to;
		const char* from;
	} parts[] = {{&b->all, s->all},
	             {&b->begin, s->begin},
	             {&b->middle, s->middle},
	             {&b->end, s->end},
	             {&b->close, s->close},
	             {&b->between, s->between},
	             {&b->finish, s->finish},
	             {&b->trigger, s->trigger},
	             {&b->begun, text_or_empty(&g->begun)},
	             {&b->later_middle, s->later_middle ? s->later_middle : ""}};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		put_marked(parts[i].to, t, parts[i].from);
	if (s->tags)
		mark_tags(b, t, s->tags);
	const char* const close =
	    reasoning_close(reasoning_style_of(model_chat_template(g->server->model, true)));
	const int32_t token = close ? tokenizer_find(t, close) : -1;
	if (token >= 0 && tokenizer_is_special(t, token))
		snprintf(b->passes, sizeof b->passes, "%s%s", GRAMMAR_SPECIAL, close);
}

/* ---- tools ----------------------------------------------------------------------------------------- */

/* A function without parameters takes no arguments. */
static bool has_none(const cJSON* schema) {
	static const char keywords[] =
	    "additionalProperties patternProperties unevaluatedProperties propertyNames required minProperties "
	    "dependentRequired dependentSchemas dependencies enum const $ref anyOf oneOf allOf not if";
	const cJSON *properties = json_field(schema, "properties"), *field;
	bool none = !(properties && properties->child);
	cJSON_ArrayForEach (field, schema)
		none = none && !json_lists(keywords, field->string);
	return none;
}

/* A call's arguments are an object. */
static bool takes_object(const cJSON* schema) {
	const cJSON *type = json_field(schema, "type"), *one;
	bool object = !type;
	if (schema && !cJSON_IsObject(schema))
		return false;
	if (cJSON_IsString(type))
		return strcmp(type->valuestring, "object") == 0;
	cJSON_ArrayForEach (one, type)
		object |= cJSON_IsString(one) && strcmp(one->valuestring, "object") == 0;
	return object;
}

static bool refuse_strict(const cJSON* tool, const char* why, struct api_error* e) {
	return api_refuse(e, "tools", "invalid_value", "The parameters of the strict tool '%.64s': %.300s.",
	                  api_text(function_of(tool), "name"), why);
}

/* True when every call that an answer may have is bound as it is written. */
static bool is_bound_throughout(const struct generation* g) { return is_forced(g) || g->request.schema; }

/* The arguments' schema; NULL with the error set: a strict tool's schema that cannot be enforced. */
static char* schema_of(struct generation* g, const cJSON* tool, struct api_error* e) {
	static const char any[] = "{\"type\": \"object\"}",
	                  none[] = "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}";
	const cJSON* schema = json_field(function_of(tool), "parameters");
	const bool strict = is_strict(tool), literal = g->request.literal_schemas;
	char* text = NULL;
	if (strict && !takes_object(schema)) {
		refuse_strict(tool, "their schema must describe an object, because a call's arguments are an object",
		              e);
		return NULL;
	}
	if (!takes_object(schema) || (!strict && !is_bound_throughout(g)))
		text = strdup(any);
	else if (has_none(schema))
		text = strdup(none);
	else
		text = json_print(schema);
	struct error why = {""};
	struct grammar* alone = text ? grammar_from_json_schema(text, strlen(text), literal, &why) : NULL;
	if (text && !alone && strict) {
		refuse_strict(tool, why.message, e);
		cJSON_free(text);
		return NULL;
	}
	if (text && !alone) { /* without strict the arguments only have to be an object */
		cJSON_free(text);
		text = strdup(any);
	}
	const char* const name = api_text(function_of(tool), "name");
	if (!text || !alone || !strict || !name || is_bound_throughout(g))
		grammar_free(alone);
	else if (!tool_checks_add(&g->checks, name, text, alone)) {
		cJSON_free(text);
		text = NULL;
	}
	if (!text)
		api_no_memory(e);
	return text;
}

/* Whether the name is read again as it is written, in each syntax. */
static bool can_be_written(const char* name) {
	for (const char* c = name; *c; c++)
		if ((unsigned char)*c < ' ' || strchr("\"\\<>{}[]()", *c))
			return false;
	return *name != '\0';
}

static bool add_tool(struct tool_binding* b, struct generation* g, const cJSON* tool, struct api_error* e) {
	const char* name = api_text(function_of(tool), "name");
	const char* only = g->request.tool_name;
	if (!name || !can_be_written(name))
		return api_refuse(
		    e, "tools", "invalid_value",
		    "If a call is forced or a tool is strict, 'tools' must hold functions whose names have no "
		    "quotes, brackets or line feeds; /v1/responses takes other types of tools.");
	if (b->n == MAX_TOOLS)
		return api_refuse(e, "tools", "invalid_value",
		                  "If a call is forced or a tool is strict, 'tools' must hold at most %d functions.",
		                  MAX_TOOLS);
	if (only && strcmp(only, name) != 0)
		return true;
	const int i = b->n++;
	text_print(&b->text[i], "%s%s%s%s", text_or_empty(&b->all), text_or_empty(&b->begin), name,
	           text_or_empty(&b->middle));
	if (b->later_middle.size > 0)
		text_print(&b->later[i], "%s%s%s", text_or_empty(&b->begin), name, text_or_empty(&b->later_middle));
	b->schema[i] = schema_of(g, tool, e);
	if (b->schema[i] && (b->text[i].failed || b->later[i].failed))
		return api_no_memory(e);
	b->call[i] = (struct grammar_call){
	    .first = text_or_empty(&b->text[i]),
	    .before = b->later[i].size > 0 ? b->later[i].data : text_or_empty(&b->text[i]) + b->all.size,
	    .schema = b->schema[i],
	    .after = text_or_empty(&b->end)};
	return b->schema[i] != NULL;
}

static bool compile_grammar(const struct tool_binding* b, struct generation* g, struct api_error* e) {
	struct error error = {""};
	const bool must = g->begun.size > 0;
	const struct grammar_calls calls = {.call = b->call,
	                                    .n = b->n,
	                                    .literal = g->request.literal_schemas,
	                                    .tags = g->syntax->tags ? &b->tags : NULL,
	                                    .close = text_or_empty(&b->close),
	                                    .between = text_or_empty(&b->between),
	                                    .finish = text_or_empty(&b->finish),
	                                    .one = g->request.one_tool_call,
	                                    .begun = must ? text_or_empty(&b->begun) : text_or_empty(&b->trigger),
	                                    .must = must,
	                                    .at_beginning = g->syntax->at_beginning,
	                                    .answer = g->request.schema,
	                                    .passes = *b->passes ? b->passes : NULL};
	struct grammar* grammar = grammar_from_calls(&calls, &error);
	if (!grammar)
		return api_refuse(e, "tools", "invalid_value", "The tools' parameters: %.300s.", error.message);
	grammar_free(g->request.grammar);
	g->request.grammar = grammar;
	g->bound = !g->request.schema;
	return true;
}

/* The strict tools' calls are checked when they are read. */
static bool check_strict(struct generation* g, const cJSON* tools, struct api_error* e) {
	for (const cJSON* tool = tools->child; tool; tool = tool->next) {
		char* const schema = is_strict(tool) ? schema_of(g, tool, e) : NULL;
		if (is_strict(tool) && !schema)
			return false;
		cJSON_free(schema);
	}
	return true;
}

/* With a grammar that is not JSON, an answer may be a call only if the grammar allows its text. Such calls,
 * and those in a syntax that the tools' grammar does not know, are judged when they are read. */
static bool bind_all(struct tool_binding* b, const cJSON* tools, struct generation* g, struct api_error* e) {
	struct api_request* q = &g->request;
	bool strict = false;
	for (const cJSON* tool = tools->child; tool; tool = tool->next)
		strict |= is_strict(tool);
	if (is_forced(g)) { /* it wins */
		free(q->schema);
		q->schema = NULL;
		grammar_free(q->grammar);
		q->grammar = NULL;
	} else if (!strict && !q->schema)
		return true;
	else if (reasoning_style_of(model_chat_template(g->server->model, true)) == REASONING_CHANNELS) {
		/* the model decides where a channel begins and what it contains */
		if (strict)
			api_ignore_name(&q->ignored, "tools.", "strict");
		return true;
	} else if (!q->schema && (q->grammar || g->syntax->forced_only))
		return check_strict(g, tools, e);
	mark_syntax(b, g);
	for (const cJSON* tool = tools->child; tool; tool = tool->next)
		if (!add_tool(b, g, tool, e))
			return false;
	return compile_grammar(b, g, e);
}

bool tools_bind(struct generation* g, struct api_error* e) {
	if (!g->request.tool_choice)
		return true;
	cJSON* tools = cJSON_Parse(generation_tools(g));
	struct tool_binding* b = calloc(1, sizeof *b);
	const bool good = tools && b ? bind_all(b, tools, g, e) : api_no_memory(e);
	for (int i = 0; b && i < b->n; i++) {
		text_free(&b->text[i]);
		text_free(&b->later[i]);
		cJSON_free(b->schema[i]);
	}
	if (b) {
		struct text* const texts[] = {&b->all,          &b->begin, &b->middle,      &b->end,
		                              &b->later_middle, &b->close, &b->between,     &b->finish,
		                              &b->trigger,      &b->begun, &b->before_name, &b->after_value};
		for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
			text_free(texts[i]);
		for (int i = 0; i < GRAMMAR_TYPES; i++)
			text_free(&b->before_value[i]);
	}
	free(b);
	cJSON_Delete(tools);
	return good;
}
