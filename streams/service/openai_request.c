/* The readers of the two requests: a table with one small function a field. */
#include "streams/service/custom_tools.h"
#include "streams/service/legacy_functions.h"
#include "streams/service/openai.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/grammar.h"

enum { COMPLETION = 1, CHAT = 2, BOTH = 3, ALWAYS = 4 /* read where the request lacks it too */ };

struct reading;
/* A row of the table: which requests have the field, who reads it, and for numbers and flags the target and
 * the limits. */
struct field {
	const char* name;
	int where;
	bool (*read)(struct reading*); /* false with an error that names the field */
	size_t at;
	double least, most;
	const char* only; /* the values that it may have */
};

struct reading {
	const cJSON* body;
	const char* text; /* the body's */
	size_t size;
	struct api_request* to;
	int vocab;
	const struct field* field; /* that is read */
	const char* name;          /* its name */
	const cJSON* value;        /* and value; NULL: there is none, or null */
	struct error why;          /* of a format or a chat that cannot be used */
	struct api_error* error;
};

#define refuse(r, code, ...) api_refuse((r)->error, (r)->name, code, __VA_ARGS__)

static bool copy_text(struct reading* r, const char* from, char** to) {
	free(*to);
	*to = strdup(from);
	return *to || api_no_memory(r->error);
}

/* ---- numbers and flags -------------------------------------------------------------------- */

static void* member_of(const struct reading* r) { return (char*)r->to + r->field->at; }

static bool read_number(struct reading* r) {
	return api_number(r->body, r->name, r->field->least, r->field->most, false, member_of(r), r->error);
}

static bool read_whole_number(struct reading* r) {
	return api_int(r->body, r->name, r->field->least, r->field->most, member_of(r), r->error);
}

static bool read_flag(struct reading* r) { return api_flag(r->body, r->name, member_of(r), r->error); }

static bool read_model(struct reading* r) {
	const char* model = NULL;
	return api_string(r->body, r->name, 512, &model, r->error) && copy_text(r, model, &r->to->model);
}

/* -1: the rest of the context. 0, under a name that allows it: the prompt is computed and no text is sent. */
static bool read_max_tokens(struct reading* r) {
	struct api_request* q = r->to;
	const int before = q->chat ? q->ask.max_tokens : 0; /* the other name's */
	if (!read_whole_number(r))
		return false;
	if (q->ask.max_tokens == 0 && q->chat && strncmp(r->name, "max_", 4) == 0)
		return refuse(r, "invalid_value", "'%s' must be at least 1, or -1 for no limit; 0 was given.",
		              r->name);
	q->prompt_only = q->ask.max_tokens == 0;
	q->ask.max_tokens = q->prompt_only ? 1 : q->ask.max_tokens < 0 ? 0 : q->ask.max_tokens;
	return before == 0 || before == q->ask.max_tokens ||
	       refuse(r, "invalid_value",
	              "'%s' differs from another field that limits the tokens: send one of them.", r->name);
}

/* vLLM and llama.cpp write "off" as -1. */
static bool read_top_k(struct reading* r) {
	if (!read_whole_number(r))
		return false;
	r->to->ask.top_k = r->to->ask.top_k < 0 ? 0 : r->to->ask.top_k;
	return true;
}

static bool read_seed(struct reading* r) {
	double v = NAN;
	if (!api_number(r->body, r->name, -0x1p63, 0x1p63, true, &v, r->error))
		return false;
	r->to->has_seed = true;
	r->to->ask.seed = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
	return true;
}

/* ---- log probabilities -------------------------------------------------------------------- */

static bool read_logprobs_count(struct reading* r) { return r->to->logprobs = read_whole_number(r); }

static bool read_top_logprobs(struct reading* r) {
	return read_whole_number(r) &&
	       (r->to->top_logprobs == 0 || cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(r->body, "logprobs")) ||
	        refuse(r, "invalid_value", "'top_logprobs' needs 'logprobs': true."));
}

/* ---- objects ------------------------------------------------------------------------------ */

static bool read_stream_options(struct reading* r) {
	if (!cJSON_IsObject(r->value))
		return refuse(r, "invalid_type", "'stream_options' must be an object.");
	if (!cJSON_IsTrue(json_field(r->body, "stream")))
		return refuse(r, "invalid_value", "'stream_options' needs 'stream': true.");
	struct api_request* q = r->to;
	for (const cJSON* item = r->value->child; item; item = item->next)
		if (!json_lists("include_usage include_obfuscation continuous_usage_stats", item->string))
			api_ignore(&q->ignored, "stream_options.", item);
	return api_flag(r->value, "stream_options.include_usage", &q->include_usage, r->error) &&
	       api_flag(r->value, "stream_options.continuous_usage_stats", &q->continuous_usage, r->error);
}

static bool read_metadata(struct reading* r) {
	bool good = cJSON_IsObject(r->value);
	for (const cJSON* item = r->value->child; item; item = item->next)
		good = good && cJSON_IsString(item);
	if (!good)
		return refuse(r, "invalid_type", "'metadata' must be an object of strings.");
	const char* task = NULL;
	if (!api_string(r->value, "metadata.task", API_MAX_TASK, &task, r->error))
		return false;
	return !task || !*task || copy_text(r, task, &r->to->task);
}

/* A token id as a JSON key: digits without leading zeros. -1: not an id. */
static int32_t token_of(const char* key, int vocab) {
	const size_t n = strspn(key, "0123456789");
	const int64_t id = n == 0 || n > 9 || key[n] || (key[0] == '0' && n > 1) ? -1 : strtoll(key, NULL, 10);
	return id < vocab ? (int32_t)id : -1;
}

/* Keeps the tokens ascending. Of a token that is given twice the last bias holds. */
static bool add_bias(struct reading* r, int32_t token, const cJSON* bias) {
	struct api_request* q = r->to;
	const bool none = cJSON_IsFalse(bias);
	if (!none && (!cJSON_IsNumber(bias) || !(bias->valuedouble >= -100 && bias->valuedouble <= 100)))
		return refuse(r, "invalid_value", "'logit_bias' of token %d must be a number from -100 to 100.",
		              token);
	int at = q->n_bias;
	while (at > 0 && q->bias[at - 1].token >= token)
		at--;
	if (at == q->n_bias || q->bias[at].token != token) {
		memmove(q->bias + at + 1, q->bias + at, (size_t)(q->n_bias - at) * sizeof *q->bias);
		q->n_bias++;
	}
	q->bias[at] = (struct swiftlet_bias){token, none ? -100 : (float)bias->valuedouble};
	return true;
}

static bool add_named_bias(struct reading* r, const cJSON* item) {
	const int32_t token = token_of(item->string, r->vocab);
	if (token < 0)
		return refuse(r, "invalid_value",
		              "'logit_bias' names '%.40s': expected a token from \"0\" to \"%d\".", item->string,
		              r->vocab - 1);
	return add_bias(r, token, item);
}

/* llama.cpp's form, [token, bias]; false for a bias forbids the token. */
static bool add_pair(struct reading* r, const cJSON* item) {
	const cJSON *token = cJSON_GetArrayItem(item, 0), *bias = cJSON_GetArrayItem(item, 1);
	if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 || !cJSON_IsNumber(token) ||
	    !(token->valuedouble >= 0 && token->valuedouble < r->vocab) ||
	    token->valuedouble != (int32_t)token->valuedouble)
		return refuse(r, "invalid_value",
		              "'logit_bias' as an array holds pairs [token, bias], with tokens from 0 to %d.",
		              r->vocab - 1);
	return add_bias(r, (int32_t)token->valuedouble, bias);
}

static bool read_logit_bias(struct reading* r) {
	const bool pairs = cJSON_IsArray(r->value);
	if (!pairs && !cJSON_IsObject(r->value))
		return refuse(r, "invalid_type",
		              "'logit_bias' must be an object {\"token\": bias} or an array of pairs [token, bias].");
	const int n = cJSON_GetArraySize(r->value);
	if (n > API_MAX_BIASES)
		return refuse(r, "invalid_value", "'logit_bias' holds more than %d tokens.", API_MAX_BIASES);
	r->to->bias = n ? calloc((size_t)n, sizeof *r->to->bias) : NULL;
	if (n && !r->to->bias)
		return api_no_memory(r->error);
	for (const cJSON* item = r->value->child; item; item = item->next)
		if (!(pairs ? add_pair(r, item) : add_named_bias(r, item)))
			return false;
	return true;
}

static bool add_stop(struct reading* r, const cJSON* item) {
	if (!cJSON_IsString(item) || !item->valuestring[0])
		return refuse(r, "invalid_type",
		              "'stop' must be a string or an array of strings that are not empty.");
	if (r->to->n_stop == API_MAX_STOPS)
		return refuse(r, "invalid_value", "'stop' holds more than %d strings.", API_MAX_STOPS);
	if (strlen(item->valuestring) > API_MAX_STOP_BYTES)
		return refuse(r, "invalid_value", "A string of 'stop' is longer than %d bytes.", API_MAX_STOP_BYTES);
	if (!copy_text(r, item->valuestring, &r->to->stop[r->to->n_stop]))
		return false;
	r->to->n_stop++;
	return true;
}

static bool read_stop(struct reading* r) {
	if (!cJSON_IsArray(r->value))
		return add_stop(r, r->value);
	for (const cJSON* item = r->value->child; item; item = item->next)
		if (!add_stop(r, item))
			return false;
	return true;
}

static bool read_end_tokens(struct reading* r) {
	const int n = api_tokens(r->value, r->name, r->vocab, r->to->end_token, SWIFTLET_END_TOKENS, r->error);
	r->to->ask.n_end_tokens = n > 0 ? n : 0;
	return n >= 0;
}

/* ---- the format of the answer: response_format, vLLM's guided_*, llama.cpp's grammar ------------- */

/* Keeps the compiled grammar; an answer may have only one. */
static bool take_grammar(struct reading* r, struct grammar* grammar) {
	if (!grammar)
		return refuse(r, "invalid_value", "'%.40s': %.400s.", r->name, r->why.message);
	if (r->to->grammar) {
		grammar_free(grammar);
		return refuse(r, "invalid_value", "More than one output format is asked for.");
	}
	r->to->grammar = grammar;
	return true;
}

/* An answer with a schema is JSON, which is never read as a call. */
static bool take_schema(struct reading* r, const cJSON* schema) {
	char* text = cJSON_IsString(schema) ? NULL : json_print(schema);
	const char* of = cJSON_IsString(schema) ? schema->valuestring : text;
	if (!of)
		return refuse(r, "invalid_value", "'%.40s' holds no schema.", r->name);
	const bool good =
	    copy_text(r, of, &r->to->schema) &&
	    take_grammar(r, grammar_from_json_schema(of, strlen(of), r->to->literal_schemas, &r->why));
	cJSON_free(text);
	return good;
}

static bool take_json(struct reading* r, const cJSON* schema) {
	return schema ? take_schema(r, schema)
	              : copy_text(r, "", &r->to->schema) && take_grammar(r, grammar_from_json_object(&r->why));
}

static bool read_response_format(struct reading* r) {
	const cJSON* schema = json_field(r->value, "schema"); /* as llama.cpp has it */
	int given = 0;                                        /* null counts as absent */
	for (const cJSON* item = r->value->child; item; item = item->next)
		given += !cJSON_IsNull(item);
	if (api_is(r->value, "type", "text") && given == 1)
		return true;
	if (api_is(r->value, "type", "json_object"))
		return take_json(r, schema);
	if (!api_is(r->value, "type", "json_schema"))
		return refuse(
		    r, "invalid_value",
		    "'response_format' must have a 'type' of \"text\", \"json_object\" or \"json_schema\".");
	const cJSON* of = json_field(r->value, "json_schema");
	schema = of ? json_field(of, "schema") : schema;
	return schema ? take_json(r, schema)
	              : refuse(r, "invalid_value", "'response_format.json_schema' must have a 'schema'.");
}

static bool read_guided_json(struct reading* r) { return take_json(r, r->value); }

static bool read_guided_choice(struct reading* r) {
	int n = cJSON_IsArray(r->value) ? 0 : -1;
	for (const cJSON* item = r->value->child; item && n >= 0; item = item->next)
		n = cJSON_IsString(item) && n < API_MAX_GUIDED ? n + 1 : -1;
	if (n < 0)
		return refuse(r, "invalid_value", "'%.40s' is not a list of up to %d strings.", r->name,
		              API_MAX_GUIDED);
	const char** choice = malloc(((size_t)n + 1) * sizeof *choice);
	if (!choice)
		return api_no_memory(r->error);
	n = 0;
	for (const cJSON* item = r->value->child; item; item = item->next)
		choice[n++] = item->valuestring;
	struct grammar* const grammar = grammar_from_choices(choice, n, &r->why);
	free(choice);
	return take_grammar(r, grammar);
}

static bool take_text(struct reading* r, struct grammar* (*from)(const char*, size_t, struct error*)) {
	const char* text = cJSON_GetStringValue(r->value);
	if (!text)
		return refuse(r, "invalid_value", "'%.40s' is not a string.", r->name);
	return take_grammar(r, from(text, strlen(text), &r->why));
}

static bool read_guided_regex(struct reading* r) { return take_text(r, grammar_from_regex); }
static bool read_grammar(struct reading* r) { return take_text(r, grammar_from_gbnf); }

/* vLLM's structured_outputs: the same fields as members of one object. */
static bool read_structured(struct reading* r) {
	static const struct {
		const char* name;
		bool (*read)(struct reading*);
	} kinds[] = {{"json", read_guided_json},
	             {"regex", read_guided_regex},
	             {"choice", read_guided_choice},
	             {"grammar", read_grammar}};
	const cJSON* const object = r->value;
	if (!cJSON_IsObject(object))
		return refuse(r, "invalid_type", "'%s' must be an object.", r->name);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		r->value = json_field(object, kinds[i].name);
		if (r->value && !kinds[i].read(r))
			return false;
	}
	if (json_field(object, "structural_tag"))
		return refuse(r, "unsupported_field",
		              "'%s.structural_tag' is not supported; 'json', 'regex', 'choice' "
		              "and 'grammar' are.",
		              r->name);
	return !cJSON_IsTrue(json_field(object, "json_object")) || take_json(r, NULL);
}

/* ---- what we do not have ------------------------------------------------------------------ */

static bool read_only(struct reading* r) {
	const char* only = r->field->only;
	char* text = json_print(r->value);
	const char* at = text ? strstr(only, text) : NULL;
	const bool good = at && at[strlen(text)] == ',' && (at == only || at[-1] == ',');
	cJSON_free(text);
	return good || refuse(r, "unsupported_field", "'%s' must be %.*s: this server supports no other value.",
	                      r->name, (int)strlen(only) - 1, only);
}

/* The text after the gap, which a coder model fills. */
static bool read_suffix(struct reading* r) {
	const char* suffix = NULL;
	return api_string(r->body, r->name, SIZE_MAX, &suffix, r->error) &&
	       (!*suffix || copy_text(r, suffix, &r->to->suffix));
}

static bool read_best_of(struct reading* r) {
	const double v = cJSON_IsNumber(r->value) ? r->value->valuedouble : NAN;
	return fabs(v - 1) < 0.5 || fabs(v - r->to->n) < 0.5 ||
	       refuse(r, "unsupported_field", "'%s' must be 1 or the value of 'n': answers are not ranked.",
	              r->name);
}

static bool read_user(struct reading* r) {
	const char* ignored = NULL;
	return api_string(r->body, r->name, 1 << 16, &ignored, r->error);
}

/* ---- prompts ------------------------------------------------------------------------------ */

static bool read_id_prompt(struct reading* r, const cJSON* list, struct api_prompt* p) {
	const int n = cJSON_GetArraySize(list);
	if (n < 1)
		return refuse(r, "invalid_value", "'prompt' holds an empty array.");
	p->id = malloc((size_t)n * sizeof *p->id);
	if (!p->id)
		return api_no_memory(r->error);
	p->n = api_tokens(list, "prompt", r->vocab, p->id, n, r->error);
	return p->n > 0;
}

static bool read_one_prompt(struct reading* r, const cJSON* item) {
	struct api_prompt* p = &r->to->prompt[r->to->n_prompts++];
	if (cJSON_IsArray(item))
		return read_id_prompt(r, item, p);
	if (!cJSON_IsString(item))
		return refuse(r, "invalid_type",
		              "'prompt' must be a string, an array of strings, an array of tokens or an array of "
		              "arrays of tokens.");
	p->text_size = strlen(item->valuestring);
	return copy_text(r, item->valuestring, &p->text);
}

static bool read_prompt(struct reading* r) {
	const cJSON* prompt = r->value;
	if (!prompt)
		return refuse(r, "missing_required_parameter", "'prompt' is required.");
	/* an array of numbers is one prompt; any other array is a list of prompts of one kind */
	const bool several = cJSON_IsArray(prompt) && prompt->child && !cJSON_IsNumber(prompt->child);
	const int n = several ? cJSON_GetArraySize(prompt) : 1;
	if (n > API_MAX_CHOICES)
		return refuse(r, "invalid_value", "'prompt' holds more than %d prompts.", API_MAX_CHOICES);
	r->to->prompt = calloc((size_t)n, sizeof *r->to->prompt);
	if (!r->to->prompt)
		return api_no_memory(r->error);
	if (!several)
		return read_one_prompt(r, prompt);
	for (const cJSON* item = prompt->child; item; item = item->next) {
		if ((item->type & 0xff) != (prompt->child->type & 0xff))
			return refuse(r, "invalid_type", "'prompt' mixes strings and tokens.");
		if (!read_one_prompt(r, item))
			return false;
	}
	return true;
}

/* Messages, tools, documents and chat_template_kwargs. */
static bool read_chat(struct reading* r) {
	const char* field = r->name;
	return (chat_parts_read(r->text, r->size, &r->to->parts, &field, &r->why) &&
	        chat_parts_add_variables(&r->to->parts, r->to->variables, &r->why)) ||
	       api_refuse(r->error, field, "invalid_value", "%.300s", r->why.message);
}

/* OpenAI's {"type": "content", "content"}: a text that the output is likely to follow. */
static bool read_prediction(struct reading* r) {
	if (!api_is(r->value, "type", "content"))
		return refuse(r, "invalid_value",
		              "'prediction' must be an object with \"type\": \"content\" and \"content\".");
	const cJSON* content = cJSON_GetObjectItemCaseSensitive(r->value, "content");
	r->to->prediction = api_texts(content, r->name, "prediction.content", "text", r->error);
	return r->to->prediction != NULL;
}

/* ---- tools -------------------------------------------------------------------------------- */

static const char* function_name(const cJSON* tool) {
	const cJSON* function = json_field(tool, "function");
	return api_text(function ? function : tool, "name");
}

static bool read_tool_name(struct reading* r, const cJSON* tools) {
	const char* name = function_name(r->value);
	if (!name || !*name)
		return refuse(r, "invalid_value",
		              "'tool_choice' must be \"none\", \"auto\", \"required\" or {\"type\": \"function\", "
		              "\"function\": {\"name\"}}.");
	for (const cJSON* tool = tools->child; tool; tool = tool->next)
		if (function_name(tool) && strcmp(function_name(tool), name) == 0)
			return copy_text(r, name, &r->to->tool_name);
	return refuse(r, "invalid_value",
	              "'tool_choice' names '%.64s', which is not in 'tools': add the tool, or name another.",
	              name);
}

static bool names_one_of(const cJSON* list, const char* name) {
	for (const cJSON* item = list ? list->child : NULL; item; item = item->next)
		if (name && function_name(item) && strcmp(function_name(item), name) == 0)
			return true;
	return false;
}

/* {"mode", "tools"}: only these tools may be called. The template gets all, so that the beginning of the
 * conversation, and its cached prefix, stay the same. */
static bool read_allowed(struct reading* r, const cJSON* tools) {
	const cJSON* allowed = json_field(r->value, "allowed_tools");
	allowed = allowed ? allowed : r->value;
	const cJSON* list = json_field(allowed, "tools");
	cJSON* kept = cJSON_CreateArray();
	if (!kept)
		return api_no_memory(r->error);
	for (const cJSON* tool = tools->child; tool; tool = tool->next)
		if (names_one_of(list, function_name(tool)))
			cJSON_AddItemToArray(kept, cJSON_Duplicate(tool, true));
	const bool any = kept->child != NULL;
	r->to->allowed_tools = any ? json_print(kept) : NULL;
	cJSON_Delete(kept);
	r->to->tool_choice = api_is(allowed, "mode", "required") ? TOOLS_REQUIRED : TOOLS_AUTO;
	return any || refuse(r, "invalid_value", "'tool_choice.tools' must name at least one of 'tools'.");
}

/* A word may stand alone, or be the type of an object, as Anthropic's clients write it. */
static bool read_tool_choice(struct reading* r) {
	struct api_request* q = r->to;
	const cJSON* tools = json_field(r->body, "tools");
	const bool any = tools && tools->child;
	const char* type = function_name(r->value) ? NULL : api_text(r->value, "type");
	const char* word = cJSON_IsString(r->value) ? r->value->valuestring : type ? type : "";
	q->tool_choice = any ? TOOLS_AUTO : TOOLS_NONE;
	if (!r->value || strcmp(word, "auto") == 0)
		return true;
	if (strcmp(word, "none") == 0) { /* the template gets no tools */
		free(q->parts.tools);
		q->parts.tools = NULL;
		q->tool_choice = TOOLS_NONE;
		return true;
	}
	if (!any)
		return refuse(r, "invalid_value", "'tool_choice' needs 'tools'.");
	if (api_is(r->value, "type", "allowed_tools"))
		return read_allowed(r, tools);
	q->tool_choice = TOOLS_REQUIRED;
	return strcmp(word, "required") == 0 || strcmp(word, "any") == 0 || read_tool_name(r, tools);
}

static bool read_parallel(struct reading* r) {
	r->to->one_tool_call = cJSON_IsFalse(r->value);
	r->to->parallel_tool_calls = cJSON_IsTrue(r->value);
	return cJSON_IsBool(r->value) || refuse(r, "invalid_type", "'%s' must be true or false.", r->name);
}

/* ---- the table ---------------------------------------------------------------------------- */

/* Fields are read in this order: `n` before `best_of`. */
#define INTO(reader, member, low, high)                                                                      \
	.read = reader, .at = offsetof(struct api_request, member), .least = low, .most = high
/* A field without a reader has no effect on the text, or another field's reader reads it. A field of OpenAI
 * that is not supported is accepted with the values that change nothing: JSON, separated by commas. */
static const struct field fields[] = {
    {"model", BOTH, .read = read_model},
    {"prompt", COMPLETION | ALWAYS, .read = read_prompt},
    {"messages", CHAT | ALWAYS, .read = read_chat},
    {"tools", CHAT, .read = NULL}, /* read_chat has read these */
    {"documents", CHAT, .read = NULL},
    {"chat_template_kwargs", CHAT, .read = NULL}, /* as vLLM and llama.cpp name it */
    {"max_tokens", BOTH, INTO(read_max_tokens, ask.max_tokens, -1, 1 << 24)},
    {"max_completion_tokens", CHAT, INTO(read_max_tokens, ask.max_tokens, -1, 1 << 24)},
    {"n_predict", BOTH, INTO(read_max_tokens, ask.max_tokens, -1, 1 << 24)}, /* llama.cpp's name */
    {"continue_final_message", CHAT, .read = NULL}, /* the same; as vLLM names them */
    {"add_generation_prompt", CHAT, .read = NULL},
    {"enable_thinking", CHAT, .read = NULL},
    {"temperature", BOTH, INTO(read_number, ask.temperature, 0, 2)},
    {"top_p", BOTH, INTO(read_number, ask.top_p, 0, 1)},
    {"min_p", BOTH, INTO(read_number, ask.min_p, 0, 1)},       /* ours, as vLLM names it */
    {"top_k", BOTH, INTO(read_top_k, ask.top_k, -1, 1 << 24)}, /* the same */
    {"n", BOTH, INTO(read_whole_number, n, 1, API_MAX_N)},
    {"stream", BOTH, INTO(read_flag, stream, 0, 1)},
    {"stream_options", BOTH, .read = read_stream_options},
    {"logprobs", COMPLETION, INTO(read_logprobs_count, top_logprobs, 0, API_MAX_TOP)},
    {"logprobs", CHAT, INTO(read_flag, logprobs, 0, 1)},
    {"top_logprobs", CHAT, INTO(read_top_logprobs, top_logprobs, 0, API_MAX_TOP)},
    {"echo", COMPLETION, INTO(read_flag, echo, 0, 1)},
    {"stop", BOTH, .read = read_stop},
    {"ignore_eos", BOTH, INTO(read_flag, ask.ignore_eos, 0, 1)}, /* ours, as vLLM names it */
    {"stop_token_ids", BOTH, .read = read_end_tokens},           /* the same */
    {"seed", BOTH, .read = read_seed},
    {"metadata", BOTH, .read = read_metadata},
    {"prediction", BOTH, .read = read_prediction},
    {"cache_prompt", BOTH, .read = NULL}, /* it always is */
    {"user", BOTH, .read = read_user},
    {"best_of", COMPLETION, .read = read_best_of},
    {"suffix", COMPLETION, .read = read_suffix},
    {"presence_penalty", BOTH, INTO(read_number, ask.presence_penalty, -2, 2)},
    {"frequency_penalty", BOTH, INTO(read_number, ask.frequency_penalty, -2, 2)},
    {"repetition_penalty", BOTH,
     INTO(read_number, ask.repetition_penalty, 0.01, 10)}, /* ours, as vLLM names it */
    {"repeat_penalty", BOTH, INTO(read_number, ask.repetition_penalty, 0.01, 10)}, /* llama.cpp's name */
    {"include_stop_str_in_output", BOTH, INTO(read_flag, include_stop, 0, 1)},     /* vLLM's */
    {"return_token_ids", BOTH, INTO(read_flag, token_ids, 0, 1)},                  /* the same */
    {"logit_bias", BOTH, .read = read_logit_bias},
    {"response_format", BOTH, .read = read_response_format},
    {"json_schema", BOTH, .read = read_guided_json}, /* llama.cpp's */
    {"guided_json", BOTH, .read = read_guided_json}, /* ours, as vLLM names them */
    {"guided_regex", BOTH, .read = read_guided_regex},
    {"guided_choice", BOTH, .read = read_guided_choice},
    {"guided_grammar", BOTH, .read = read_grammar},
    {"structured_outputs", BOTH, .read = read_structured},
    {"grammar", BOTH, .read = read_grammar}, /* as llama.cpp names it */
    {"functions", CHAT, .read = read_only, .only = "[],{},"},
    {"tool_choice", CHAT | ALWAYS, .read = read_tool_choice},
    {"function_call", CHAT, .read = read_only, .only = "\"auto\",\"default\",\"none\","},
    {"parallel_tool_calls", CHAT, .read = read_parallel},
    {"store", CHAT, .read = NULL}, /* nothing is ever stored of a request */
    {"service_tier", CHAT, .read = NULL},
    {"reasoning_effort", CHAT, .read = NULL},
    {"verbosity", CHAT, .read = NULL},
    {"prompt_cache_key", BOTH, .read = NULL},
    {"safety_identifier", BOTH, .read = NULL},
    {"modalities", CHAT, .read = read_only, .only = "[\"text\"],"},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static void note_unknown(struct reading* r, int where) {
	for (const cJSON* item = r->body->child; item; item = item->next) {
		bool known = false;
		for (int i = 0; i < FIELDS && !known; i++)
			known = (fields[i].where & where) && strcmp(fields[i].name, item->string) == 0;
		if (!known)
			api_ignore(&r->to->ignored, "", item);
	}
}

static bool read_fields(struct reading* r, int where) {
	note_unknown(r, where);
	for (int i = 0; i < FIELDS; i++) {
		r->field = &fields[i];
		r->name = fields[i].name;
		r->value = json_field(r->body, r->name);
		if ((r->field->where & where) && r->field->read && (r->value || r->field->where & ALWAYS) &&
		    !r->field->read(r))
			return false;
	}
	struct api_request* q = r->to;
	q->has_temperature = json_field(r->body, "temperature");
	q->has_top_p = json_field(r->body, "top_p");
	q->has_top_k = json_field(r->body, "top_k");
	q->has_min_p = json_field(r->body, "min_p");
	/* a forced call is one call, unless several are asked for */
	q->one_tool_call |= q->tool_choice == TOOLS_REQUIRED && (q->tool_name || !q->parallel_tool_calls);
	/* 0 keeps the most probable token, as the smallest positive value does */
	q->ask.top_p = fmax(q->ask.top_p, 1e-6);
	if (q->grammar && q->ask.ignore_eos && q->ask.n_end_tokens == 0)
		return api_refuse(r->error, "ignore_eos", "invalid_value",
		                  "'ignore_eos' with an output format needs 'stop_token_ids', because some token "
		                  "must end the answer.");
	if (q->suffix && (q->n_prompts != 1 || !q->prompt[0].text || q->echo))
		return api_refuse(r->error, "suffix", "invalid_value",
		                  "'suffix' needs a 'prompt' that is one string, and no 'echo'.");
	if (q->n * (q->chat ? 1 : q->n_prompts) > API_MAX_CHOICES)
		return api_refuse(r->error, "n", "invalid_value", "More than %d choices are asked for.",
		                  API_MAX_CHOICES);
	return true;
}

/* The characters that a header may hold. */
void api_ignore_name(struct text* ignored, const char* within, const char* name) {
	enum { MOST = 400, LONGEST = 64 };
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
	const size_t n = strspn(name, letters);
	if (ignored->size < MOST)
		text_print(ignored, "%s%s%.*s%s", ignored->size ? ", " : "", within, n > LONGEST ? LONGEST : (int)n,
		           name, n == 0 || name[n] ? "?" : "");
}

void api_ignore(struct text* ignored, const char* within, const cJSON* field) {
	if (!cJSON_IsNull(field))
		api_ignore_name(ignored, within, field->string);
}

static bool read_body(const char* body, size_t size, int where, int vocab, struct api_request* q,
                      struct api_error* e) {
	*q = (struct api_request){.chat = where == CHAT,
	                          .literal_schemas = q->literal_schemas,
	                          .variables = q->variables,
	                          .ask = {.max_tokens = where == CHAT ? 0 : 16, .temperature = 1, .top_p = 1},
	                          .n = 1};
	cJSON* json = api_parse(body, size, e);
	if (!json)
		return false;
	const int legacy = where == CHAT ? legacy_functions_rewrite(json, e) : 0;
	struct text names = {0};
	const int custom = where == CHAT && legacy == 0 ? custom_tools_rewrite(json, &names, &q->ignored, e) : 0;
	const bool changed = legacy > 0 || custom > 0;
	char* const rewritten = changed ? json_print(json) : NULL;
	struct reading r = {.body = json,
	                    .text = rewritten ? rewritten : body,
	                    .size = rewritten ? strlen(rewritten) : size,
	                    .to = q,
	                    .vocab = vocab,
	                    .error = e};
	q->legacy_functions = legacy > 0;
	q->custom_tools = names.size ? text_take(&names) : NULL;
	const bool good =
	    legacy >= 0 && custom >= 0 && (!changed || rewritten || api_no_memory(e)) && read_fields(&r, where);
	text_free(&names);
	q->one_tool_call |= legacy > 0; /* whatever parallel_tool_calls is */
	cJSON_free(rewritten);
	cJSON_Delete(json);
	if (!good)
		api_request_free(q);
	return good;
}

bool api_read_completion(const char* body, size_t size, int vocab, struct api_request* q,
                         struct api_error* e) {
	return read_body(body, size, COMPLETION, vocab, q, e);
}

bool api_read_chat(const char* body, size_t size, int vocab, struct api_request* q, struct api_error* e) {
	return read_body(body, size, CHAT, vocab, q, e);
}

void api_request_free(struct api_request* q) {
	for (int i = 0; i < q->n_prompts; i++) {
		free(q->prompt[i].text);
		free(q->prompt[i].id);
	}
	chat_parts_free(&q->parts);
	for (int i = 0; i < q->n_stop; i++)
		free(q->stop[i]);
	free(q->prompt);
	free(q->model);
	free(q->bias);
	free(q->task);
	free(q->prediction);
	free(q->echoed);
	free(q->suffix);
	free(q->extra_files);
	free(q->shown_fields);
	free(q->schema);
	free(q->allowed_tools);
	free(q->custom_tools);
	text_free(&q->ignored);
	grammar_free(q->grammar);
	free(q->tool_name);
	memset(q, 0, sizeof *q);
}
