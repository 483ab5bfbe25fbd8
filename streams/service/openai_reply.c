/* What a client of OpenAI's API is given: whole answers, and chunks of a stream. */
#include "streams/service/exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/report.h"

enum { PIECE = 512 };

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
	text_put(&l->tokens, l->n ? ", " : "");
	put_chat_token(&l->tokens, t, k->id, k->logprob);
	text_json(&l->tokens, ", 'top_logprobs': [");
	for (int i = 0; i < n && i < k->n_top; i++) {
		text_put(&l->tokens, i ? ", " : "");
		put_chat_token(&l->tokens, t, k->top_id[i], k->top_logprob[i]);
		text_put(&l->tokens, "}");
	}
	text_put(&l->tokens, "]}");
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

void reply_logprobs_add(struct choice* c, const struct swiftlet_token* k) {
	const struct api_request* q = &c->exchange->request;
	const struct tokenizer* t = c->exchange->server->model->tokenizer;
	if (q->chat)
		add_chat(&c->logprobs, t, k, q->top_logprobs);
	else
		add_completion(&c->logprobs, t, k, q->top_logprobs);
	c->logprobs.n++;
}

void reply_logprobs_free(struct reply_logprobs* l) {
	text_free(&l->tokens);
	text_free(&l->values);
	text_free(&l->tops);
	text_free(&l->offsets);
	l->n = 0;
}

static const char* of(const struct text* t) { return t->data ? t->data : ""; }

static void put_logprobs(struct text* out, bool chat, const struct reply_logprobs* l) {
	if (!l)
		text_json(out, ", 'logprobs': null");
	else if (chat)
		text_json(out, ", 'logprobs': {'content': [%s], 'refusal': null}", of(&l->tokens));
	else
		text_json(out,
		          ", 'logprobs': {'tokens': [%s], 'token_logprobs': [%s], 'top_logprobs': [%s], "
		          "'text_offset': [%s]}",
		          of(&l->tokens), of(&l->values), of(&l->tops), of(&l->offsets));
}

/* ---- usage -------------------------------------------------------------------------------- */

static void put_figures(struct text* out, const struct choice* c) {
	text_put(out, "{");
	report_figures(out, &c->figures, c->exchange->server->option.work.session.method);
	text_put(out, "}");
}

/* As OpenAI counts them: predicted tokens that became output, and those that were tried in vain. */
static void put_prediction(struct exchange* x) {
	int64_t rows = 0, accepted = 0;
	for (int s = 0; swiftlet_source_name(s); s++)
		for (int i = 0; strcmp(swiftlet_source_name(s), "prediction") == 0 && i < x->n; i++) {
			rows += x->choice[i].figures.source[s].rows;
			accepted += x->choice[i].figures.source[s].accepted;
		}
	text_json(&x->out,
	          "'completion_tokens_details': {'reasoning_tokens': %l, 'accepted_prediction_tokens': %l, "
	          "'rejected_prediction_tokens': %l}, ",
	          x->usage.reasoning_tokens, accepted, rows - accepted);
}

static void put_usage(struct exchange* x) {
	struct text* out = &x->out;
	text_json(out,
	          "], 'usage': {'prompt_tokens': %l, 'completion_tokens': %l, 'total_tokens': %l, "
	          "'prompt_tokens_details': {'cached_tokens': %l}, ",
	          x->usage.prompt_tokens, x->usage.completion_tokens,
	          x->usage.prompt_tokens + x->usage.completion_tokens, x->usage.cached_tokens);
	put_prediction(x);
	text_json(out, x->n == 1 ? "'swiftlet': " : "'swiftlet': {'choices': [");
	for (int i = 0; i < x->n; i++) {
		text_put(out, i ? ", " : "");
		put_figures(out, &x->choice[i]);
	}
	text_put(out, x->n == 1 ? "}" : "]}}");
}

/* vLLM's metrics, under its names. */
static void put_speculation(struct exchange* x) {
	const struct choice* c = &x->choice[0];
	const struct swiftlet_figures* f = &c->figures;
	int64_t rows = 0, with = 0;
	int last = 0;
	for (int s = 0; swiftlet_source_name(s); s++)
		rows += f->source[s].rows;
	for (int i = 1; i < CHOICE_ACCEPTED; i++) {
		with += c->accepted[i];
		last = c->accepted[i] ? i : last;
	}
	if (f->verify_passes == 0 || x->n != 1) {
		text_json(&x->out, ", 'metrics': {'speculative_decoding': null}");
		return;
	}
	text_json(
	    &x->out,
	    ", 'metrics': {'speculative_decoding': {'mean_acceptance_length': %g, 'draft_acceptance_rate': %g, "
	    "'acceptance_histogram': [",
	    1 + (double)f->accepted / (double)f->verify_passes, (double)f->accepted / (double)rows);
	for (int i = 0; i <= last; i++)
		text_json(&x->out, i ? ", %l" : "%l", i ? c->accepted[i] : f->verify_passes - with);
	text_json(&x->out,
	          "], 'num_spec_steps': %l, 'num_accepted_draft_tokens': %l, 'num_draft_tokens': %l, "
	          "'num_spec_tokens': %d}}",
	          f->verify_passes, f->accepted, rows, x->server->option.work.session.max_draft);
}

/* After the choices. */
static void end_with_usage(struct exchange* x) {
	put_usage(x);
	if (x->server->option.tell_speculation)
		put_speculation(x);
	text_put(&x->out, "}\n");
}

/* ---- whole answers ------------------------------------------------------------------------ */

static void put_head(struct exchange* x, const char* object) {
	text_json(
	    &x->out,
	    "{'id': %q, 'object': '%s', 'created': %l, 'model': %q, 'system_fingerprint': null, 'choices': [",
	    x->id, object, (int64_t)x->created, x->server->option.work.model_name);
}

/* [{"id", "type", "function"}, …]; in a stream those not told yet, with their numbers. */
static void put_calls(struct text* out, const struct choice* c) {
	const struct tool_reader* tools = &c->reader.tools;
	text_json(out, "'tool_calls': [");
	for (int i = c->told_calls; i < tools->n; i++) {
		text_put(out, i > c->told_calls ? ", {" : "{");
		if (c->exchange->request.stream)
			text_json(out, "'index': %d, ", i);
		text_json(out, "'id': '%s', 'type': 'function', 'function': {'name': %q, 'arguments': %q}}",
		          tools->call[i].id, tools->call[i].name, tools->call[i].arguments);
	}
	text_put(out, "]");
}

static void put_message(struct text* out, const struct choice* c) {
	const struct text *content = &c->reader.content, *reasoning = &c->reader.reasoning;
	const bool calls = c->reader.tools.n > 0;
	text_json(out, "'message': {'role': 'assistant', 'content': ");
	text_json(out, calls && !content->size ? "null" : "%Q", content->data, content->size);
	if (reasoning->size)
		text_json(out, ", 'reasoning_content': %Q", reasoning->data, reasoning->size);
	text_json(out, calls ? ", 'refusal': null, " : ", 'refusal': null");
	if (calls)
		put_calls(out, c);
	text_put(out, "}");
}

static const char* finish_reason(const struct choice* c) {
	return c->figures.stop == SWIFTLET_LENGTH ? "length" : c->reader.tools.n ? "tool_calls" : "stop";
}

/* reason: NULL where it goes on. */
static void end_choice(struct exchange* x, const struct reply_logprobs* logprobs, const char* reason) {
	put_logprobs(&x->out, x->request.chat, logprobs);
	text_json(&x->out, ", 'finish_reason': %q}", reason);
}

static void put_choice(const struct choice* c) {
	struct exchange* x = c->exchange;
	text_json(&x->out, "{'index': %d, ", c->index);
	if (x->request.chat)
		put_message(&x->out, c);
	else
		text_json(&x->out, "'text': %Q", c->reader.content.data, c->reader.content.size);
	end_choice(x, x->request.logprobs ? &c->logprobs : NULL, finish_reason(c));
}

static void whole(struct exchange* x) {
	put_head(x, x->request.chat ? "chat.completion" : "text_completion");
	for (int i = 0; i < x->n; i++) {
		text_put(&x->out, i ? ", " : "");
		put_choice(&x->choice[i]);
	}
	end_with_usage(x);
}

/* ---- streams ------------------------------------------------------------------------------ */

static void begin_chunk(struct exchange* x) {
	text_put(&x->out, "data: ");
	put_head(x, x->request.chat ? "chat.completion.chunk" : "text_completion");
}

/* With one choice, whose delta or text is to be written. */
static struct text* begin_part(const struct choice* c) {
	begin_chunk(c->exchange);
	text_json(&c->exchange->out, "{'index': %d, ", c->index);
	return &c->exchange->out;
}

/* Members of the chunk may follow. */
static void end_part(struct exchange* x, const struct reply_logprobs* logprobs, const char* reason) {
	end_choice(x, logprobs, reason);
	text_put(&x->out, "]");
}

static void end_chunk(struct exchange* x) { text_put(&x->out, "}\n\n"); }

static void first_chunk(struct choice* c) {
	if (!c->exchange->request.chat)
		return;
	text_json(begin_part(c), "'delta': {'role': 'assistant', 'content': ''}");
	end_part(c->exchange, NULL, NULL);
	end_chunk(c->exchange);
}

/* For the page: pairs of a token's text and who drafted it. */
static void put_tokens(struct text* out, const struct tokenizer* t, const struct swiftlet_step* step) {
	text_json(out, ", 'swiftlet': {'tokens': [");
	for (int i = 0; i < step->n; i++) {
		char piece[PIECE];
		const size_t n = piece_of(t, step->token[i].id, false, piece);
		text_json(out, i ? ", [%Q, %q]" : "[%Q, %q]", piece, n, swiftlet_source_name(step->token[i].source));
	}
	text_put(out, "]}");
}

/* What is thought, what is said and what is called have chunks of their own. Text may be held back for a stop
 * string or an unfinished character: then there may be nothing to say. */
static void part(struct choice* c, const struct swiftlet_step* step) {
	struct exchange* x = c->exchange;
	const struct text *content = &c->reader.content, *reasoning = &c->reader.reasoning;
	if (reasoning->size) {
		text_json(begin_part(c), "'delta': {'reasoning_content': %Q}", reasoning->data, reasoning->size);
		end_part(x, NULL, NULL);
		end_chunk(x);
	}
	if (content->size || c->logprobs.n || (x->detail && step && step->n)) {
		text_json(begin_part(c), x->request.chat ? "'delta': {'content': %Q}" : "'text': %Q", content->data,
		          content->size);
		end_part(x, step && x->request.logprobs ? &c->logprobs : NULL, NULL);
		if (x->detail && step)
			put_tokens(&x->out, x->server->model->tokenizer, step);
		end_chunk(x);
	}
	if (c->told_calls < c->reader.tools.n) {
		text_json(begin_part(c), "'delta': {");
		put_calls(&x->out, c);
		text_put(&x->out, "}");
		end_part(x, NULL, NULL);
		end_chunk(x);
	}
}

static void last(struct choice* c) {
	struct exchange* x = c->exchange;
	text_json(begin_part(c), x->request.chat ? "'delta': {}" : "'text': ''");
	end_part(x, NULL, finish_reason(c));
	if (x->detail) {
		text_json(&x->out, ", 'swiftlet': ");
		put_figures(&x->out, c);
	}
	end_chunk(x);
}

static void end(struct exchange* x) {
	if (x->error.status) {
		char* text = api_error_text(&x->error);
		if (text)
			text_print(&x->out, "data: %s\n", text); /* which ends in one already */
		free(text);
	} else if (x->request.include_usage) {
		begin_chunk(x);
		end_with_usage(x);
		text_put(&x->out, "\n");
	}
	text_put(&x->out, "data: [DONE]\n\n");
}

#define VOICE(name, reader)                                                                                  \
	{                                                                                                        \
		.id = name, .read = reader, .first = first_chunk, .part = part, .last = last, .end = end,            \
		.whole = whole                                                                                       \
	}
const struct reply_voice voice_completion = VOICE("cmpl-", api_read_completion);
const struct reply_voice voice_chat = VOICE("chatcmpl-", api_read_chat);
