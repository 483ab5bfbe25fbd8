/* Formats OpenAI's completions and chat completions: whole responses, and chunks of a stream. */
#include "streams/service/custom_tools.h"
#include "streams/service/generation.h"

#include <math.h>
#include <stdio.h>
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

/* A token's text. OpenAI writes a token that is no whole character as "bytes:\xe2\x82". */
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

static void put_chat_token(struct text* out, const struct tokenizer* t, int32_t id, double logprob,
                           bool ids) {
	char piece[PIECE];
	const size_t n = piece_of(t, id, true, piece);
	text_put(out, "{");
	if (ids)
		text_json(out, "'id': %d, ", (int)id);
	text_json(out, "'token': ");
	put_piece(out, t, id);
	text_json(out, ", 'logprob': %g, 'bytes': [", logprob);
	for (size_t i = 0; i < n; i++)
		text_print(out, "%s%d", i ? ", " : "", (unsigned char)piece[i]);
	text_put(out, "]");
}

static void add_chat(struct reply_logprobs* l, const struct tokenizer* t, const struct swiftlet_token* k,
                     const struct api_request* q) {
	text_put(&l->tokens, l->n ? ", " : "");
	put_chat_token(&l->tokens, t, k->id, k->logprob, q->with_ids);
	text_json(&l->tokens, ", 'top_logprobs': [");
	for (int i = 0; i < q->top_logprobs && i < k->n_top; i++) {
		text_put(&l->tokens, i ? ", " : "");
		put_chat_token(&l->tokens, t, k->top_id[i], k->top_logprob[i], q->with_ids);
		text_put(&l->tokens, "}");
	}
	text_put(&l->tokens, "]}");
}

static void put_top(struct text* out, const struct tokenizer* t, bool first, int32_t id, float logprob) {
	text_put(out, first ? "" : ", ");
	put_piece(out, t, id);
	text_put(out, ": ");
	text_number(out, logprob);
}

static void add_completion(struct reply_logprobs* l, const struct tokenizer* t,
                           const struct swiftlet_token* k, int n) {
	const char* separator = l->n ? ", " : "";
	text_put(&l->tokens, separator);
	put_piece(&l->tokens, t, k->id);
	text_put(&l->values, separator);
	text_number(&l->values, k->logprob);
	text_print(&l->offsets, "%s%zu", separator, l->offset);
	char piece[PIECE];
	l->offset += characters(piece, piece_of(t, k->id, false, piece));
	if (isnan(k->logprob)) { /* a text's first token */
		text_print(&l->tops, "%snull", separator);
		return;
	}
	bool listed = false; /* the token itself, which may not be among the most probable */
	text_print(&l->tops, "%s{", separator);
	for (int i = 0; i < n && i < k->n_top; i++) {
		put_top(&l->tops, t, i == 0, k->top_id[i], k->top_logprob[i]);
		listed |= k->top_id[i] == k->id;
	}
	if (!listed)
		put_top(&l->tops, t, n == 0 || k->n_top == 0, k->id, k->logprob);
	text_put(&l->tops, "}");
}

void reply_logprobs_add(struct choice* c, const struct swiftlet_token* k) {
	const struct api_request* q = &c->generation->request;
	const struct tokenizer* t = c->generation->server->model->tokenizer;
	if (q->chat || q->with_ids)
		add_chat(&c->logprobs, t, k, q);
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
	report_figures(out, &c->figures, c->generation->server->option.work.session.drafting.method);
	text_put(out, "}");
}

/* OpenAI's counts: predicted tokens that entered the output, and those that were rejected. */
static void put_prediction(struct generation* g) {
	int64_t rows = 0, accepted = 0;
	for (int s = 0; swiftlet_source_name(s); s++)
		for (int i = 0; strcmp(swiftlet_source_name(s), "prediction") == 0 && i < g->n; i++) {
			rows += g->choice[i].figures.source[s].rows;
			accepted += g->choice[i].figures.source[s].accepted;
		}
	text_json(&g->out,
	          "'completion_tokens_details': {'reasoning_tokens': %l, 'accepted_prediction_tokens': %l, "
	          "'rejected_prediction_tokens': %l}",
	          g->usage.reasoning_tokens, accepted, rows - accepted);
}

static void put_usage(struct generation* g) {
	struct text* out = &g->out;
	text_json(out,
	          "'usage': {'prompt_tokens': %l, 'completion_tokens': %l, 'total_tokens': %l, "
	          "'prompt_tokens_details': {'cached_tokens': %l}, ",
	          g->usage.prompt_tokens, g->usage.completion_tokens,
	          g->usage.prompt_tokens + g->usage.completion_tokens, g->usage.cached_tokens);
	put_prediction(g);
	text_json(out, g->n == 1 ? "}, 'swiftlet': " : "}, 'swiftlet': {'choices': [");
	for (int i = 0; i < g->n; i++) {
		text_put(out, i ? ", " : "");
		put_figures(out, &g->choice[i]);
	}
	text_put(out, g->n == 1 ? "" : "]}");
}

/* llama-server's, under its names. The first token comes with the prompt, so that the time for the written
 * ones is that of one fewer. */
void reply_timings(struct text* out, const struct choice* c) {
	const struct swiftlet_figures* f = &c->figures;
	const double prompt = f->seconds.prefill,
	             written = f->seconds.decode; /* drafts and verification included */
	const int64_t tokens = c->generation->request.prompt_only ? 0 : f->tokens,
	              steps = tokens > 1 && written > 0 ? tokens - 1 : 0;
	const int64_t prompt_n = f->prompt_tokens - f->cached_tokens;
	int64_t rows = 0;
	for (int s = 0; swiftlet_source_name(s); s++)
		rows += f->source[s].rows;
	text_json(out,
	          ", 'timings': {'cache_n': %l, 'prompt_n': %l, 'prompt_ms': %g, 'prompt_per_token_ms': %g, "
	          "'prompt_per_second': %g, 'predicted_n': %l, 'predicted_ms': %g, 'predicted_per_token_ms': %g, "
	          "'predicted_per_second': %g, 'draft_n': %l, 'draft_n_accepted': %l}",
	          (int64_t)f->cached_tokens, prompt_n, 1000 * prompt, 1000 * prompt / (double)prompt_n,
	          (double)prompt_n / prompt, tokens, 1000 * written, steps ? 1000 * written / (double)steps : 0,
	          steps ? (double)steps / written : 0, rows, f->accepted);
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
	          f->verify_passes, f->accepted, rows, g->server->option.work.session.drafting.max_draft);
}

/* After the choices. */
static void end_with_usage(struct generation* g) {
	text_put(&g->out, "], ");
	put_usage(g);
	if (g->n == 1)
		reply_timings(&g->out, &g->choice[0]);
	if (g->server->option.report_speculation)
		put_speculation(g);
	text_put(&g->out, "}\n");
}

/* ---- whole answers ------------------------------------------------------------------------ */

/* system_fingerprint: the build and the model, on which the text of a seed depends. */
static void put_head(struct generation* g, const char* object) {
	char model[13];
	snprintf(model, sizeof model, "%.12s", g->server->model->fingerprint);
	text_json(
	    &g->out,
	    "{'id': %q, 'object': '%s', 'created': %l, 'model': %q, 'system_fingerprint': 'b%s-%s', 'choices': [",
	    g->id, object, (int64_t)g->created, g->server->option.work.model_name, g->server->option.version,
	    model);
}

static const char* arguments_of(const struct tool_call* call) {
	return call->arguments ? call->arguments : "";
}

static void put_call(struct text* out, const struct choice* c, const struct tool_call* call) {
	if (!custom_tools_have(c->generation, call)) {
		text_json(out, "'id': '%s', 'type': 'function', 'function': {'name': %q, 'arguments': %q}}", call->id,
		          call->name, arguments_of(call));
		return;
	}
	char* input = call->ended ? custom_tools_input(call) : NULL;
	text_json(out, "'id': '%s', 'type': 'custom', 'custom': {'name': %q, 'input': %q}}", call->id, call->name,
	          input ? input : "");
	free(input);
}

/* [{"id", "type", "function"}, …]; in a stream only calls not sent yet, with their numbers. */
static void put_calls(struct text* out, const struct choice* c) {
	const struct tool_reader* tools = &c->reader.tools;
	if (c->generation->request.legacy_functions) {
		text_json(out, "'function_call': {'name': %q, 'arguments': %q}", tools->call[0].name,
		          arguments_of(&tools->call[0]));
		return;
	}
	text_json(out, "'tool_calls': [");
	for (int i = c->sent_calls; i < tools->n; i++) {
		text_put(out, i > c->sent_calls ? ", {" : "{");
		if (c->generation->request.stream)
			text_json(out, "'index': %d, ", i);
		put_call(out, c, &tools->call[i]);
	}
	text_put(out, "]");
}

static void put_message(struct text* out, const struct choice* c) {
	const struct text *content = &c->reader.content, *reasoning = &c->reader.reasoning;
	const bool calls = c->reader.tools.n > 0;
	text_json(out, "'message': {'role': 'assistant', 'content': ");
	text_json(out, calls && !content->size ? "null" : "%Q", content->data, content->size);
	if (reasoning->size)
		text_json(out, ", 'reasoning_content': %Q, 'reasoning': %Q", reasoning->data, reasoning->size,
		          reasoning->data, reasoning->size);
	text_json(out, calls ? ", 'refusal': null, " : ", 'refusal': null");
	if (calls)
		put_calls(out, c);
	text_put(out, "}");
}

static const char* finish_reason(const struct choice* c) {
	return c->figures.stop == SWIFTLET_LENGTH || c->generation->request.prompt_only ? "length"
	       : c->reader.tools.n && c->generation->request.legacy_functions           ? "function_call"
	       : c->reader.tools.n                                                      ? "tool_calls"
	                                                                                : "stop";
}

/* reason: NULL where it goes on. */
static void end_choice(struct generation* g, const struct reply_logprobs* logprobs, const char* reason) {
	put_logprobs(&g->out, g->request.chat, logprobs);
	text_json(&g->out, ", 'finish_reason': %q}", reason);
}

/* vLLM's fields. */
static void put_token_ids(const struct choice* c, const int32_t* token, int64_t n) {
	struct generation* g = c->generation;
	const struct token_list* prompt = &g->prompt[c->index / g->request.n];
	if (!g->request.stream) {
		text_json(&g->out, ", 'prompt_token_ids': ");
		text_integers(&g->out, prompt->id, prompt->n);
	}
	text_json(&g->out, ", 'token_ids': ");
	text_integers(&g->out, token, (int)n);
}

static void put_choice(const struct choice* c) {
	struct generation* g = c->generation;
	text_json(&g->out, "{'index': %d, ", c->index);
	if (g->request.chat)
		put_message(&g->out, c);
	else
		text_json(&g->out, "'text': %Q", c->reader.content.data, c->reader.content.size);
	if (g->request.token_ids)
		put_token_ids(c, c->token, c->tokens);
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

/* Opens a chunk with one choice, whose delta or text follows. */
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

/* If the last chunk has the usage, the others have null, or the usage so far. */
static void end_chunk(struct generation* g) {
	int64_t tokens = 0;
	for (int i = 0; i < g->n; i++)
		tokens += g->choice[i].tokens;
	if (g->request.continuous_usage)
		text_json(&g->out, ", 'usage': {'prompt_tokens': %l, 'completion_tokens': %l, 'total_tokens': %l}",
		          g->usage.prompt_tokens, tokens, g->usage.prompt_tokens + tokens);
	else if (g->request.include_usage)
		text_json(&g->out, ", 'usage': null");
	text_put(&g->out, "}\n\n");
}

static void first_chunk(struct choice* c) {
	if (!c->generation->request.chat)
		return;
	text_json(begin_part(c), "'delta': {'role': 'assistant', 'content': ''}");
	end_part(c->generation, NULL, NULL);
	end_chunk(c->generation);
}

/* A custom tool's text arrives as JSON, so it is sent once it is complete. */
static void put_input(struct choice* c, int number) {
	const struct tool_call* call = &c->reader.tools.call[number];
	if (!call->ended || c->sent_input)
		return;
	char* input = custom_tools_input(call);
	text_json(begin_part(c), "'delta': {'tool_calls': [{'index': %d, 'custom': {'input': %q}}]}", number,
	          input ? input : "");
	free(input);
	c->sent_input = true;
	end_part(c->generation, NULL, NULL);
	end_chunk(c->generation);
}

/* Sends more arguments of the last call. */
static void put_arguments(struct choice* c) {
	const int last = c->sent_calls - 1;
	if (last >= 0 && custom_tools_have(c->generation, &c->reader.tools.call[last])) {
		put_input(c, last);
		return;
	}
	const char* arguments = last >= 0 ? arguments_of(&c->reader.tools.call[last]) : "";
	if (last < 0 || strlen(arguments) <= c->sent_arguments)
		return;
	if (c->generation->request.legacy_functions)
		text_json(begin_part(c), "'delta': {'function_call': {'arguments': %q}}",
		          arguments + c->sent_arguments);
	else
		text_json(begin_part(c), "'delta': {'tool_calls': [{'index': %d, 'function': {'arguments': %q}}]}",
		          last, arguments + c->sent_arguments);
	end_part(c->generation, NULL, NULL);
	end_chunk(c->generation);
}

/* For the page: pairs of a token's text and its drafter. */
static void put_tokens(struct text* out, const struct tokenizer* t, const struct swiftlet_step* step) {
	text_json(out, ", 'swiftlet': {'tokens': [");
	for (int i = 0; i < step->n; i++) {
		char piece[PIECE];
		const size_t n = piece_of(t, step->token[i].id, false, piece);
		text_json(out, i ? ", [%Q, %q]" : "[%Q, %q]", piece, n, swiftlet_source_name(step->token[i].source));
	}
	text_put(out, "]}");
}

/* Reasoning, content and calls have chunks of their own. When text is held back for a stop string or an
 * incomplete character, there may be nothing to send. */
static void emit_part(struct choice* c, const struct swiftlet_step* step) {
	struct generation* g = c->generation;
	const struct text *content = &c->reader.content, *reasoning = &c->reader.reasoning;
	put_arguments(c);
	if (reasoning->size) {
		text_json(begin_part(c), "'delta': {'reasoning_content': %Q, 'reasoning': %Q}", reasoning->data,
		          reasoning->size, reasoning->data, reasoning->size);
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
		c->sent_input = c->reader.tools.call[c->reader.tools.n - 1].ended;
		text_put(&g->out, "}");
		end_part(g, NULL, NULL);
		end_chunk(g);
	}
}

static void emit_last(struct choice* c) {
	struct generation* g = c->generation;
	text_json(begin_part(c), g->request.chat ? "'delta': {}" : "'text': ''");
	end_part(g, NULL, finish_reason(c));
	reply_timings(&g->out, c);
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
		.id = name, .keepalive = ": still at it\n\n", .read = reader, .first = first_chunk,                  \
		.part = emit_part, .last = emit_last, .end = end_stream, .whole = format_response                    \
	}
const struct response_formatter formatter_completion = FORMATTER("cmpl-", api_read_completion);
const struct response_formatter formatter_chat = FORMATTER("chatcmpl-", api_read_chat);
