/* What a client of OpenAI's API is given: whole answers, and chunks of a stream. */
#include "streams/service/generation.h"

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
	const struct api_request* q = &c->generation->request;
	const struct tokenizer* t = c->generation->server->model->tokenizer;
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

static const char* text_or_empty(const struct text* t) { return t->data ? t->data : ""; }

static void put_logprobs(struct text* out, bool chat, const struct reply_logprobs* l) {
	if (!l)
		text_json(out, ", 'logprobs': null");
	else if (chat)
		text_json(out, ", 'logprobs': {'content': [%s], 'refusal': null}", text_or_empty(&l->tokens));
	else
		text_json(out,
		          ", 'logprobs': {'tokens': [%s], 'token_logprobs': [%s], 'top_logprobs': [%s], "
		          "'text_offset': [%s]}",
		          text_or_empty(&l->tokens), text_or_empty(&l->values), text_or_empty(&l->tops),
		          text_or_empty(&l->offsets));
}

/* ---- usage -------------------------------------------------------------------------------- */

static void put_figures(struct text* out, const struct choice* c) {
	text_put(out, "{");
	report_figures(out, &c->figures, c->generation->server->option.work.session.method);
	text_put(out, "}");
}

/* As OpenAI counts them: predicted tokens that became output, and those that were tried in vain. */
static void put_prediction(struct generation* g) {
	int64_t rows = 0, accepted = 0;
	for (int s = 0; swiftlet_source_name(s); s++)
		for (int i = 0; strcmp(swiftlet_source_name(s), "prediction") == 0 && i < g->n; i++) {
			rows += g->choice[i].figures.source[s].rows;
			accepted += g->choice[i].figures.source[s].accepted;
		}
	text_json(&g->out,
	          "'completion_tokens_details': {'reasoning_tokens': %l, 'accepted_prediction_tokens': %l, "
	          "'rejected_prediction_tokens': %l}, ",
	          g->usage.reasoning_tokens, accepted, rows - accepted);
}

static void put_usage(struct generation* g) {
	struct text* out = &g->out;
	text_json(out,
	          "], 'usage': {'prompt_tokens': %l, 'completion_tokens': %l, 'total_tokens': %l, "
	          "'prompt_tokens_details': {'cached_tokens': %l}, ",
	          g->usage.prompt_tokens, g->usage.completion_tokens,
	          g->usage.prompt_tokens + g->usage.completion_tokens, g->usage.cached_tokens);
	put_prediction(g);
	text_json(out, g->n == 1 ? "'swiftlet': " : "'swiftlet': {'choices': [");
	for (int i = 0; i < g->n; i++) {
		text_put(out, i ? ", " : "");
		put_figures(out, &g->choice[i]);
	}
	text_put(out, g->n == 1 ? "}" : "]}}");
}

/* vLLM's metrics, under its names. */
static void put_speculation(struct generation* g) {
	const struct choice* c = &g->choice[0];
	const struct swiftlet_figures* f = &c->figures;
	int64_t rows = 0, with = 0;
	int last = 0;
	for (int s = 0; swiftlet_source_name(s); s++)
		rows += f->source[s].rows;
	for (int i = 1; i < CHOICE_ACCEPTED; i++) {
		with += c->accepted[i];
		last = c->accepted[i] ? i : last;
	}
	if (f->verify_passes == 0 || g->n != 1) {
		text_json(&g->out, ", 'metrics': {'speculative_decoding': null}");
		return;
	}
	text_json(
	    &g->out,
	    ", 'metrics': {'speculative_decoding': {'mean_acceptance_length': %g, 'draft_acceptance_rate': %g, "
	    "'acceptance_histogram': [",
	    1 + (double)f->accepted / (double)f->verify_passes, (double)f->accepted / (double)rows);
	for (int i = 0; i <= last; i++)
		text_json(&g->out, i ? ", %l" : "%l", i ? c->accepted[i] : f->verify_passes - with);
	text_json(&g->out,
	          "], 'num_spec_steps': %l, 'num_accepted_draft_tokens': %l, 'num_draft_tokens': %l, "
	          "'num_spec_tokens': %d}}",
	          f->verify_passes, f->accepted, rows, g->server->option.work.session.max_draft);
}

/* After the choices. */
static void end_with_usage(struct generation* g) {
	put_usage(g);
	if (g->server->option.tell_speculation)
		put_speculation(g);
	text_put(&g->out, "}\n");
}

/* ---- whole answers ------------------------------------------------------------------------ */

static void put_head(struct generation* g, const char* object) {
	text_json(
	    &g->out,
	    "{'id': %q, 'object': '%s', 'created': %l, 'model': %q, 'system_fingerprint': null, 'choices': [",
	    g->id, object, (int64_t)g->created, g->server->option.work.model_name);
}

/* [{"id", "type", "function"}, …]; in a stream those not told yet, with their numbers. */
static void put_calls(struct text* out, const struct choice* c) {
	const struct tool_reader* tools = &c->reader.tools;
	text_json(out, "'tool_calls': [");
	for (int i = c->sent_calls; i < tools->n; i++) {
		text_put(out, i > c->sent_calls ? ", {" : "{");
		if (c->generation->request.stream)
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
static void end_choice(struct generation* g, const struct reply_logprobs* logprobs, const char* reason) {
	put_logprobs(&g->out, g->request.chat, logprobs);
	text_json(&g->out, ", 'finish_reason': %q}", reason);
}

static void put_choice(const struct choice* c) {
	struct generation* g = c->generation;
	text_json(&g->out, "{'index': %d, ", c->index);
	if (g->request.chat)
		put_message(&g->out, c);
	else
		text_json(&g->out, "'text': %Q", c->reader.content.data, c->reader.content.size);
	end_choice(g, g->request.logprobs ? &c->logprobs : NULL, finish_reason(c));
}

static void format_response(struct generation* g) {
	put_head(g, g->request.chat ? "chat.completion" : "text_completion");
	for (int i = 0; i < g->n; i++) {
		text_put(&g->out, i ? ", " : "");
		put_choice(&g->choice[i]);
	}
	end_with_usage(g);
}

/* ---- streams ------------------------------------------------------------------------------ */

static void begin_chunk(struct generation* g) {
	text_put(&g->out, "data: ");
	put_head(g, g->request.chat ? "chat.completion.chunk" : "text_completion");
}

/* With one choice, whose delta or text is to be written. */
static struct text* begin_part(const struct choice* c) {
	begin_chunk(c->generation);
	text_json(&c->generation->out, "{'index': %d, ", c->index);
	return &c->generation->out;
}

/* Members of the chunk may follow. */
static void end_part(struct generation* g, const struct reply_logprobs* logprobs, const char* reason) {
	end_choice(g, logprobs, reason);
	text_put(&g->out, "]");
}

static void end_chunk(struct generation* g) { text_put(&g->out, "}\n\n"); }

static void first_chunk(struct choice* c) {
	if (!c->generation->request.chat)
		return;
	text_json(begin_part(c), "'delta': {'role': 'assistant', 'content': ''}");
	end_part(c->generation, NULL, NULL);
	end_chunk(c->generation);
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
static void emit_part(struct choice* c, const struct swiftlet_step* step) {
	struct generation* g = c->generation;
	const struct text *content = &c->reader.content, *reasoning = &c->reader.reasoning;
	if (reasoning->size) {
		text_json(begin_part(c), "'delta': {'reasoning_content': %Q}", reasoning->data, reasoning->size);
		end_part(g, NULL, NULL);
		end_chunk(g);
	}
	if (content->size || c->logprobs.n || (g->detail && step && step->n)) {
		text_json(begin_part(c), g->request.chat ? "'delta': {'content': %Q}" : "'text': %Q", content->data,
		          content->size);
		end_part(g, step && g->request.logprobs ? &c->logprobs : NULL, NULL);
		if (g->detail && step)
			put_tokens(&g->out, g->server->model->tokenizer, step);
		end_chunk(g);
	}
	if (c->sent_calls < c->reader.tools.n) {
		text_json(begin_part(c), "'delta': {");
		put_calls(&g->out, c);
		text_put(&g->out, "}");
		end_part(g, NULL, NULL);
		end_chunk(g);
	}
}

static void emit_last(struct choice* c) {
	struct generation* g = c->generation;
	text_json(begin_part(c), g->request.chat ? "'delta': {}" : "'text': ''");
	end_part(g, NULL, finish_reason(c));
	if (g->detail) {
		text_json(&g->out, ", 'swiftlet': ");
		put_figures(&g->out, c);
	}
	end_chunk(g);
}

static void end_stream(struct generation* g) {
	if (g->error.status) {
		char* text = api_error_text(&g->error);
		if (text)
			text_print(&g->out, "data: %s\n", text); /* which ends in one already */
		free(text);
	} else if (g->request.include_usage) {
		begin_chunk(g);
		end_with_usage(g);
		text_put(&g->out, "\n");
	}
	text_put(&g->out, "data: [DONE]\n\n");
}

#define FORMATTER(name, reader)                                                                              \
	{                                                                                                        \
		.id = name, .read = reader, .first = first_chunk, .part = emit_part, .last = emit_last,              \
		.end = end_stream, .whole = format_response                                                          \
	}
const struct response_formatter formatter_completion = FORMATTER("cmpl-", api_read_completion);
const struct response_formatter formatter_chat = FORMATTER("chatcmpl-", api_read_chat);
