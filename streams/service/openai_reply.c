/* Answers and chunks as text; openai_reply.h says for whom. */
#include "streams/service/openai_reply.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/report.h"
#include "streams/service/reply_voice.h"

enum { PIECE = 512 };

static const char* finish_reason(enum swiftlet_stop stop, int n_calls) {
	return stop == SWIFTLET_LENGTH ? "length" : n_calls ? "tool_calls" : "stop";
}

/* ---- tokens ------------------------------------------------------------------------------- */

static size_t piece_of(const struct tokenizer* t, int32_t id, bool special, char piece[PIECE]) {
	const size_t n = tokenizer_piece(t, id, special, piece, PIECE);
	return n > PIECE ? PIECE : n;
}

/* A token's text; one that is no whole character is written as OpenAI does, "bytes:\xe2\x82". */
static void put_piece(struct text* out, const struct tokenizer* t, int32_t id) {
	char piece[PIECE];
	const size_t n = piece_of(t, id, true, piece);
	if (utf8_valid(piece, n)) {
		text_quote(out, piece, n);
		return;
	}
	text_put(out, "\"bytes:");
	for (size_t i = 0; i < n; i++)
		text_print(out, "\\\\x%02x", (unsigned char)piece[i]);
	text_put(out, "\"");
}

static void put_chat_token(struct text* out, const struct tokenizer* t, int32_t id, double logprob) {
	char piece[PIECE];
	const size_t n = piece_of(t, id, true, piece);
	text_json(out, "{'token': ");
	put_piece(out, t, id);
	text_json(out, ", 'logprob': %g, 'bytes': [", logprob);
	for (size_t i = 0; i < n; i++)
		text_print(out, "%s%d", i ? ", " : "", (unsigned char)piece[i]);
	text_put(out, "]");
}

static void add_chat(struct reply_logprobs* l, const struct tokenizer* t, const struct swiftlet_token* k,
                     int n) {
	text_put(&l->content, l->n ? ", " : "");
	put_chat_token(&l->content, t, k->id, k->logprob);
	text_json(&l->content, ", 'top_logprobs': [");
	for (int i = 0; i < n && i < k->n_top; i++) {
		text_put(&l->content, i ? ", " : "");
		put_chat_token(&l->content, t, k->top_id[i], k->top_logprob[i]);
		text_put(&l->content, "}");
	}
	text_put(&l->content, "]}");
}

static void add_completion(struct reply_logprobs* l, const struct tokenizer* t,
                           const struct swiftlet_token* k, int n) {
	const char* separator = l->n ? ", " : "";
	text_put(&l->tokens, separator);
	put_piece(&l->tokens, t, k->id);
	text_put(&l->values, separator);
	text_number(&l->values, k->logprob);
	text_print(&l->offsets, "%s%zu", separator, l->offset);
	l->offset += tokenizer_piece(t, k->id, false, NULL, 0);
	if (isnan(k->logprob)) { /* a text's first token */
		text_print(&l->tops, "%snull", separator);
		return;
	}
	text_print(&l->tops, "%s{", separator);
	for (int i = 0; i < n && i < k->n_top; i++) {
		text_put(&l->tops, i ? ", " : "");
		put_piece(&l->tops, t, k->top_id[i]);
		text_put(&l->tops, ": ");
		text_number(&l->tops, k->top_logprob[i]);
	}
	text_put(&l->tops, "}");
}

void reply_logprobs_add(struct reply_logprobs* l, bool chat, const struct tokenizer* t,
                        const struct swiftlet_token* k, int n_top) {
	if (chat)
		add_chat(l, t, k, n_top);
	else
		add_completion(l, t, k, n_top);
	l->n++;
}

void reply_logprobs_free(struct reply_logprobs* l) {
	text_free(&l->tokens);
	text_free(&l->values);
	text_free(&l->tops);
	text_free(&l->offsets);
	text_free(&l->content);
}

static const char* of(const struct text* t) { return t->data ? t->data : ""; }

static void put_logprobs(struct text* out, bool chat, const struct reply_logprobs* l) {
	if (!l)
		text_json(out, ", 'logprobs': null");
	else if (chat)
		text_json(out, ", 'logprobs': {'content': [%s], 'refusal': null}", of(&l->content));
	else
		text_json(out,
		          ", 'logprobs': {'tokens': [%s], 'token_logprobs': [%s], 'top_logprobs': [%s], "
		          "'text_offset': [%s]}",
		          of(&l->tokens), of(&l->values), of(&l->tops), of(&l->offsets));
}

/* ---- usage -------------------------------------------------------------------------------- */

void reply_figures(struct text* out, const struct swiftlet_figures* f, enum swiftlet_method method) {
	cJSON* object = cJSON_CreateObject();
	char* text = object && report_add_figures(object, f, method) ? cJSON_PrintUnformatted(object) : NULL;
	if (text)
		text_put(out, text);
	else
		out->failed = true;
	cJSON_free(text);
	cJSON_Delete(object);
}

/* As OpenAI counts them: predicted tokens that became output, and those that were tried in vain. */
static void put_prediction(struct text* out, const struct reply_usage* u) {
	int64_t rows = 0, accepted = 0;
	for (int s = 0; swiftlet_source_name(s); s++)
		for (int i = 0; strcmp(swiftlet_source_name(s), "prediction") == 0 && i < u->n; i++) {
			rows += u->figures[i]->source[s].rows;
			accepted += u->figures[i]->source[s].accepted;
		}
	text_json(out,
	          "'completion_tokens_details': {'reasoning_tokens': %l, 'accepted_prediction_tokens': %l, "
	          "'rejected_prediction_tokens': %l}, ",
	          u->reasoning_tokens, accepted, rows - accepted);
}

static void put_usage(struct text* out, const struct reply_usage* u) {
	text_json(out,
	          "], 'usage': {'prompt_tokens': %l, 'completion_tokens': %l, 'total_tokens': %l, "
	          "'prompt_tokens_details': {'cached_tokens': %l}, ",
	          u->prompt_tokens, u->completion_tokens, u->prompt_tokens + u->completion_tokens,
	          u->cached_tokens);
	put_prediction(out, u);
	text_json(out, u->n == 1 ? "'swiftlet': " : "'swiftlet': {'choices': [");
	for (int i = 0; i < u->n; i++) {
		text_put(out, i ? ", " : "");
		reply_figures(out, u->figures[i], u->method);
	}
	text_put(out, u->n == 1 ? "}" : "]}}");
}

/* vLLM's metrics, under its names. */
static void put_speculation(struct text* out, const struct reply_usage* u) {
	const struct swiftlet_figures* f = u->figures[0];
	const int64_t accepted = f->accepted;
	int64_t rows = 0, with = 0;
	int last = 0;
	for (int s = 0; swiftlet_source_name(s); s++)
		rows += f->source[s].rows;
	for (int i = 1; i < REPLY_ACCEPTED; i++) {
		with += u->speculation->steps[i];
		last = u->speculation->steps[i] ? i : last;
	}
	if (f->rounds == 0 || u->n != 1) {
		text_json(out, ", 'metrics': {'speculative_decoding': null}");
		return;
	}
	text_json(
	    out,
	    ", 'metrics': {'speculative_decoding': {'mean_acceptance_length': %g, 'draft_acceptance_rate': %g, "
	    "'acceptance_histogram': [",
	    1 + (double)accepted / (double)f->rounds, (double)accepted / (double)rows);
	for (int i = 0; i <= last; i++)
		text_json(out, i ? ", %l" : "%l", i ? u->speculation->steps[i] : f->rounds - with);
	text_json(out,
	          "], 'num_spec_steps': %l, 'num_accepted_draft_tokens': %l, 'num_draft_tokens': %l, "
	          "'num_spec_tokens': %d}}",
	          f->rounds, accepted, rows, u->speculation->most);
}

/* After the choices. */
static void end_with_usage(struct text* out, const struct reply_usage* u) {
	put_usage(out, u);
	if (u->speculation)
		put_speculation(out, u);
	text_put(out, "}\n");
}

/* ---- whole answers ------------------------------------------------------------------------ */

static void put_head(struct text* out, const struct reply_head* h, const char* object) {
	text_json(
	    out,
	    "{'id': %q, 'object': '%s', 'created': %l, 'model': %q, 'system_fingerprint': null, 'choices': [",
	    h->id, object, h->created, h->model);
}

/* [{"id", "type", "function"}, …]; in a stream with their numbers. */
static void put_calls(struct text* out, const struct tool_call* call, int first, int n, bool stream) {
	text_json(out, "'tool_calls': [");
	for (int i = first; i < n; i++) {
		text_put(out, i > first ? ", {" : "{");
		if (stream)
			text_json(out, "'index': %d, ", i);
		text_json(out, "'id': '%s', 'type': 'function', 'function': {'name': %q, 'arguments': %q}}",
		          call[i].id, call[i].name, call[i].arguments);
	}
	text_put(out, "]");
}

static void put_message(struct text* out, const struct reply_choice* c) {
	text_json(out, "'message': {'role': 'assistant', 'content': ");
	text_json(out, c->n_calls && !c->size ? "null" : "%Q", c->text, c->size);
	if (c->reasoning_size)
		text_json(out, ", 'reasoning_content': %Q", c->reasoning, c->reasoning_size);
	text_json(out, c->n_calls ? ", 'refusal': null, " : ", 'refusal': null");
	if (c->n_calls)
		put_calls(out, c->call, 0, c->n_calls, false);
	text_put(out, "}");
}

static void put_choice(struct text* out, bool chat, const struct reply_choice* c) {
	text_json(out, "{'index': %d, ", c->index);
	if (chat)
		put_message(out, c);
	else
		text_json(out, "'text': %Q", c->text, c->size);
	put_logprobs(out, chat, c->logprobs);
	text_json(out, ", 'finish_reason': '%s'}", finish_reason(c->stop, c->n_calls));
}

static void whole(struct text* out, const struct reply_head* h, const struct reply_choice* c, int n,
                  const struct reply_usage* u) {
	put_head(out, h, h->chat ? "chat.completion" : "text_completion");
	for (int i = 0; i < n; i++) {
		text_put(out, i ? ", " : "");
		put_choice(out, h->chat, &c[i]);
	}
	end_with_usage(out, u);
}

/* ---- streams ------------------------------------------------------------------------------ */

static void begin_chunk(struct text* out, const struct reply_head* h) {
	text_put(out, "data: ");
	put_head(out, h, h->chat ? "chat.completion.chunk" : "text_completion");
}

static void end_chunk(struct text* out, const char* detail) {
	text_json(out, detail ? "], 'swiftlet': %s}\n\n" : "]}\n\n", detail);
}

static void first_chunk(struct text* out, const struct reply_head* h, int index) {
	if (!h->chat)
		return;
	begin_chunk(out, h);
	text_json(out,
	          "{'index': %d, 'delta': {'role': 'assistant', 'content': ''}, 'logprobs': null, "
	          "'finish_reason': null}",
	          index);
	end_chunk(out, NULL);
}

/* What is thought has a delta of its own. */
static void reasoning_part(struct text* out, const struct reply_head* h, const struct reply_choice* c) {
	begin_chunk(out, h);
	text_json(out,
	          "{'index': %d, 'delta': {'reasoning_content': %Q}, 'logprobs': null, 'finish_reason': null}",
	          c->index, c->reasoning, c->reasoning_size);
	end_chunk(out, NULL);
}

static void part(struct text* out, const struct reply_head* h, const struct reply_choice* c,
                 const char* detail) {
	if (c->reasoning_size)
		reasoning_part(out, h, c);
	if (!c->size && !detail && !c->logprobs)
		return;
	begin_chunk(out, h);
	text_json(out, h->chat ? "{'index': %d, 'delta': {'content': %Q}" : "{'index': %d, 'text': %Q", c->index,
	          c->text, c->size);
	put_logprobs(out, h->chat, c->logprobs);
	text_json(out, ", 'finish_reason': null}");
	end_chunk(out, detail);
}

static void calls(struct text* out, const struct reply_head* h, int index, const struct tool_call* call,
                  int first, int n) {
	begin_chunk(out, h);
	text_json(out, "{'index': %d, 'delta': {", index);
	put_calls(out, call, first, n, true);
	text_json(out, "}, 'logprobs': null, 'finish_reason': null}");
	end_chunk(out, NULL);
}

static void last(struct text* out, const struct reply_head* h, const struct reply_choice* c,
                 const char* detail) {
	begin_chunk(out, h);
	text_json(out,
	          h->chat ? "{'index': %d, 'delta': {}, 'logprobs': null, 'finish_reason': '%s'}"
	                  : "{'index': %d, 'text': '', 'logprobs': null, 'finish_reason': '%s'}",
	          c->index, finish_reason(c->stop, c->n_calls));
	end_chunk(out, detail);
}

static void end(struct text* out, const struct reply_head* h, const struct reply_usage* u,
                const struct api_error* error) {
	if (error) {
		char* text = api_error_text(error);
		if (text)
			text_print(out, "data: %.*s\n\n", (int)strcspn(text, "\n"), text);
		free(text);
	} else if (u->wanted) {
		begin_chunk(out, h);
		end_with_usage(out, u);
		text_put(out, "\n");
	}
	text_put(out, "data: [DONE]\n\n");
}

#define VOICE(name, reader)                                                                                  \
	{                                                                                                        \
		.id = name, .read = reader, .first = first_chunk, .part = part, .calls = calls, .last = last,        \
		.end = end, .whole = whole                                                                           \
	}
const struct reply_voice voice_completion = VOICE("cmpl-", api_read_completion);
const struct reply_voice voice_chat = VOICE("chatcmpl-", api_read_chat);

void reply_tokens(struct text* out, const struct tokenizer* t, const struct swiftlet_step* step) {
	text_put(out, "[");
	for (int i = 0; i < step->n; i++) {
		char piece[PIECE];
		const size_t n = piece_of(t, step->token[i].id, false, piece);
		text_json(out, i ? ", [%Q, %q]" : "[%Q, %q]", piece, n, swiftlet_source_name(step->token[i].source));
	}
	text_put(out, "]");
}
