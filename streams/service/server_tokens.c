/* The model's tokenizer for clients that count or cut texts: /tokenize and /detokenize. Fields have vLLM's
 * names, and llama.cpp's where those differ. */
#include <stdlib.h>
#include <string.h>

#include "core/text/tokenizer.h"
#include "streams/chat_parts.h"
#include "streams/json_text.h"
#include "streams/service/chat_translation.h"
#include "streams/service/server_internal.h"

/* Unknown fields are ignored and named, or refused. */
static bool note_fields(struct http_call* c, const cJSON* body, const char* known) {
	struct text ignored = {0};
	if (c->server->option.strict_fields)
		return api_only(body, known, &c->error);
	for (const cJSON* item = body->child; item; item = item->next)
		if (!json_lists(known, item->string))
			api_ignore(&ignored, "", item);
	server_note_ignored(c->server, ignored.data);
	c->ignored = ignored.size ? text_take(&ignored) : NULL;
	return true;
}

/* ---- tokens of a text --------------------------------------------------------------------- */

static bool encode_chat(struct http_call* c, struct token_list* list) {
	const struct model* m = c->server->model;
	struct api_request q = {.variables = c->server->option.variables};
	struct error e = {""};
	if (!api_read_chat(c->body.data, c->body.size, m->weights.shape.vocab, &q, &c->error))
		return false;
	const bool good = chat_parts_encode(&q.parts, m, list, &e);
	api_request_free(&q);
	return good || api_refuse(&c->error, "messages", "invalid_value", "%.300s", e.message);
}

/* vLLM adds special tokens by default, llama.cpp does not. */
static bool encode_prompt(struct http_call* c, const cJSON* body, struct token_list* list) {
	const bool other = cJSON_GetObjectItemCaseSensitive(body, "content") != NULL;
	const char* name = other ? "content" : "prompt";
	const char* text = NULL;
	bool special = !other;
	if (!api_flag(body, "add_special_tokens", &special, &c->error) ||
	    !api_flag(body, "add_special", &special, &c->error) ||
	    !api_string(body, name, SERVER_BODY, &text, &c->error))
		return false;
	if (!text)
		return api_refuse(&c->error, "prompt", "missing_required_parameter",
		                  "'prompt' or 'messages' is required.");
	return tokenizer_encode(c->server->model->tokenizer, text, strlen(text),
	                        special ? TOKENIZE_ADD_SPECIAL : 0, list) ||
	       api_no_memory(&c->error);
}

static void put_pieces(const struct http_call* c, struct text* out, const struct token_list* list) {
	const struct tokenizer* t = c->server->model->tokenizer;
	char piece[512];
	text_put(out, "[");
	for (int i = 0; i < list->n && !atomic_load(&c->gone); i++) {
		const size_t n = tokenizer_piece(t, list->id[i], true, piece, sizeof piece);
		text_put(out, i ? ", " : "");
		text_quote(out, piece, n < sizeof piece ? n : sizeof piece);
	}
	text_put(out, "]");
}

/* llama.cpp's form: ids with their pieces, and bytes in place of a piece that is no whole text. */
static void put_tokens_with_pieces(const struct http_call* c, struct text* out,
                                   const struct token_list* list) {
	const struct tokenizer* t = c->server->model->tokenizer;
	char piece[512];
	text_put(out, "[");
	for (int i = 0; i < list->n && !atomic_load(&c->gone); i++) {
		size_t n = tokenizer_piece(t, list->id[i], true, piece, sizeof piece);
		n = n < sizeof piece ? n : sizeof piece;
		text_json(out, i ? ", {'id': %d, 'piece': " : "{'id': %d, 'piece': ", list->id[i]);
		const bool whole = utf8_valid(piece, n);
		if (whole)
			text_quote(out, piece, n);
		for (size_t k = 0; !whole && k < n; k++)
			text_print(out, k ? ", %d%s" : "[%d%s", (uint8_t)piece[k], k + 1 == n ? "]" : "");
		text_put(out, "}");
	}
	text_put(out, "]");
}

static bool reply_tokens_of(struct http_call* c, const struct token_list* list, bool pieces,
                            bool with_pieces) {
	struct text out = {0};
	text_json(&out, "{'count': %d, 'max_model_len': %d, 'tokens': ", list->n, c->server->context);
	if (with_pieces)
		put_tokens_with_pieces(c, &out, list);
	else
		text_integers(&out, list->id, list->n);
	text_json(&out, ", 'token_strs': ");
	if (pieces)
		put_pieces(c, &out, list);
	else
		text_put(&out, "null");
	text_put(&out, "}\n");
	if (atomic_load(&c->gone)) {
		text_free(&out);
		return call_abandoned(c);
	}
	return call_reply_json(c, &out);
}

bool answer_tokenize(struct http_call* c) {
	static const char known[] = "model prompt content messages tools documents chat_template_kwargs "
	                            "add_special_tokens add_special return_token_strs continue_final_message "
	                            "add_generation_prompt enable_thinking reasoning_effort with_pieces";
	struct token_list list = {0};
	cJSON* body = api_parse(c->body.data, c->body.size, &c->error);
	bool pieces = false, with_pieces = false;
	bool good = body && note_fields(c, body, known) &&
	            api_flag(body, "return_token_strs", &pieces, &c->error) &&
	            api_flag(body, "with_pieces", &with_pieces, &c->error);
	if (good)
		good = cJSON_GetObjectItemCaseSensitive(body, "messages") ? encode_chat(c, &list)
		                                                          : encode_prompt(c, body, &list);
	cJSON_Delete(body);
	good = good && reply_tokens_of(c, &list, pieces, with_pieces);
	token_list_free(&list);
	return good;
}

/* llama.cpp's endpoint: a chat's prompt as text. /completion adds the BOS that is left out. */
bool answer_apply_template(struct http_call* c) {
	const struct tokenizer* t = c->server->model->tokenizer;
	struct token_list list = {0};
	struct text out = {0};
	size_t size = 0;
	bool good = encode_chat(c, &list);
	const int skip = good && list.n > 0 && tokenizer_adds_bos(t) && list.id[0] == tokenizer_bos(t);
	char* const text = good ? tokenizer_decode(t, list.id + skip, list.n - skip, true, true, &size) : NULL;
	if (text)
		text_json(&out, "{'prompt': %Q}\n", text, size);
	else if (good)
		good = api_no_memory(&c->error);
	free(text);
	token_list_free(&list);
	return good && call_reply_json(c, &out);
}

typedef bool chat_reader(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);

/* Answers with the tokens of a chat's prompt; format: of the answer, with the number. */
static bool reply_count(struct http_call* c, chat_reader* read, const char* field, const char* format) {
	struct api_request q = {.literal_schemas = c->server->option.literal_schemas,
	                        .variables = c->server->option.variables};
	struct token_list list = {0};
	struct error e;
	bool good = read(c->body.data, c->body.size, c->server->model->weights.shape.vocab, &q, &c->error);
	if (good && !chat_parts_encode(&q.parts, c->server->model, &list, &e))
		good = api_refuse(&c->error, field, "chat_template", "%.390s", e.message);
	struct text out = {0};
	if (good)
		text_json(&out, format, list.n);
	api_request_free(&q);
	token_list_free(&list);
	return good && call_reply_json(c, &out);
}

/* Anthropic's endpoint, and the same of chats (llama.cpp's) and of Responses. */
bool answer_count_tokens(struct http_call* c) {
	return reply_count(c, messages_read_counted, "messages", "{'input_tokens': %d}\n");
}
bool answer_chat_input_tokens(struct http_call* c) {
	return reply_count(c, api_read_chat, "messages",
	                   "{'object': 'response.input_tokens', 'input_tokens': %d}\n");
}
bool answer_input_tokens(struct http_call* c) {
	return reply_count(c, responses_read, "input",
	                   "{'object': 'response.input_tokens', 'input_tokens': %d}\n");
}

/* vLLM's endpoint: the data for a client that encodes chats itself. */
bool answer_tokenizer_info(struct http_call* c) {
	const struct tokenizer* t = c->server->model->tokenizer;
	const char* template = model_chat_template(c->server->model, false);
	const int32_t token[] = {tokenizer_bos(t), tokenizer_eos(t), tokenizer_eos(t)};
	static const char* const names[] = {"bos_token", "eos_token", "pad_token"};
	struct text out = {0};
	text_json(&out, "{'tokenizer_class': 'swiftlet', 'chat_template': %q", template);
	for (int i = 0; i < 3; i++) {
		char piece[256];
		const size_t n = token[i] >= 0 ? tokenizer_piece(t, token[i], true, piece, sizeof piece) : 0;
		text_json(&out, n && n < sizeof piece ? ", '%s': %Q" : ", '%s': null", names[i], piece, n);
	}
	text_put(&out, "}\n");
	return call_reply_json(c, &out);
}

/* ---- text of tokens ----------------------------------------------------------------------- */

/* Both names that clients look for. */
static bool reply_text_of(struct http_call* c, const int32_t* id, int n) {
	struct text out = {0};
	size_t size = 0;
	char* text = tokenizer_decode(c->server->model->tokenizer, id, n, true, true, &size);
	if (!text)
		return api_no_memory(&c->error);
	text_json(&out, "{'prompt': %Q, 'content': %Q}\n", text, size, text, size);
	free(text);
	return call_reply_json(c, &out);
}

bool answer_detokenize(struct http_call* c) {
	cJSON* body = api_parse(c->body.data, c->body.size, &c->error);
	int32_t* id = NULL;
	int n = -1;
	if (body && note_fields(c, body, "model tokens")) {
		const cJSON* tokens = cJSON_GetObjectItemCaseSensitive(body, "tokens");
		const int most = cJSON_GetArraySize(tokens), vocab = c->server->model->weights.shape.vocab;
		id = calloc((size_t)most + 1, sizeof *id);
		if (id)
			n = api_tokens(tokens, "tokens", vocab, id, most, &c->error);
		else
			api_no_memory(&c->error);
	}
	cJSON_Delete(body);
	const bool good = n >= 0 && reply_text_of(c, id, n);
	free(id);
	return good;
}
