/* Formats Anthropic's Messages: a message with its blocks, the events of a stream, and errors. A whole
 * response is built from the same item stream. */
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/service/chat_translation.h"
#include "streams/service/generation.h"

static void begin_event(struct text* out, const char* type) {
	text_json(out, "event: %s\ndata: {'type': '%s'", type, type);
}

static void finish_event(struct text* out) { text_put(out, "}\n\n"); }

static void put_stop(struct generation* g) {
	const struct choice* c = &g->choice[0];
	const char* string = NULL;
	const char* reason = "end_turn";
	if (c->figures.stop == SWIFTLET_LENGTH)
		reason = "max_tokens";
	else if (c->reader.tools.n)
		reason = "tool_use";
	else if (c->figures.stop_string >= 0) {
		reason = "stop_sequence";
		string = g->request.stop[c->figures.stop_string];
	}
	text_json(&g->out, "'stop_reason': '%s', 'stop_sequence': %q", reason, string);
}

/* Anthropic's count of input tokens excludes cached ones. */
static void put_usage(struct generation* g) {
	text_json(
	    &g->out,
	    "'usage': {'input_tokens': %l, 'cache_creation_input_tokens': 0, 'cache_read_input_tokens': %l, "
	    "'output_tokens': %l}",
	    g->usage.prompt_tokens - g->usage.cached_tokens, g->usage.cached_tokens, g->usage.completion_tokens);
}

/* {…, "content": [ */
static void put_head(struct generation* g) {
	text_json(&g->out, "{'id': '%s', 'type': 'message', 'role': 'assistant', 'model': %q, 'content': [",
	          g->id, g->server->option.work.model_name);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void put_block(struct text* out, enum item_kind what, const char* text, size_t size) {
	text_json(out,
	          what == ITEM_REASONING ? "{'type': 'thinking', 'thinking': %Q, 'signature': ''}"
	                                 : "{'type': 'text', 'text': %Q}",
	          text, size);
}

static void put_start(struct generation* g) {
	begin_event(&g->out, "content_block_start");
	text_json(&g->out, ", 'index': %d, 'content_block': ", g->items.count);
}

static void put_delta(struct generation* g, const char* type, const char* name, const char* text,
                      size_t size) {
	begin_event(&g->out, "content_block_delta");
	text_json(&g->out, ", 'index': %d, 'delta': {'type': '%s', '%s': %Q}", g->items.count, type, name, text,
	          size);
	finish_event(&g->out);
}

static void put_block_end(struct generation* g) {
	begin_event(&g->out, "content_block_stop");
	text_json(&g->out, ", 'index': %d", g->items.count);
	finish_event(&g->out);
}

/* Anthropic's arguments are objects. Arguments that a limit cut off become a member of one. */
static void put_input(struct text* out, const char* arguments) {
	struct error ignored;
	const bool object =
	    arguments[strspn(arguments, " \t\r\n")] == '{' && json_check(arguments, strlen(arguments), &ignored);
	text_json(out, object ? "%s" : "{'arguments': %q}", arguments);
}

/* arguments: NULL before they have come. */
static void put_use(struct text* out, const struct tool_call* call, const char* arguments) {
	text_json(out, "{'type': 'tool_use', 'id': '%s', 'name': %q, 'input': ", call->id, call->name);
	put_input(out, arguments ? arguments : "{}");
	text_put(out, "}");
}

static void open_block(struct generation* g, const struct tool_call* call) {
	put_start(g);
	if (call)
		put_use(&g->out, call, NULL);
	else
		put_block(&g->out, g->items.open, "", 0);
	finish_event(&g->out);
}

static void more_of_block(struct generation* g, const char* text, size_t size) {
	static const char* const delta[][2] = {[ITEM_REASONING] = {"thinking_delta", "thinking"},
	                                       [ITEM_TEXT] = {"text_delta", "text"},
	                                       [ITEM_CALL] = {"input_json_delta", "partial_json"}};
	put_delta(g, delta[g->items.open][0], delta[g->items.open][1], text, size);
}

static void close_block(struct generation* g, const struct tool_call* call) {
	put_block_end(g);
	if (call)
		put_use(&g->items.closed, call, call->arguments);
	else
		put_block(&g->items.closed, g->items.open, g->items.text.data, g->items.text.size);
}

/* ---- the formatter -------------------------------------------------------------------------- */

static void first_events(struct choice* c) {
	struct generation* g = c->generation;
	begin_event(&g->out, "message_start");
	text_json(&g->out, ", 'message': ");
	put_head(g);
	text_json(&g->out, "], 'stop_reason': null, 'stop_sequence': null, ");
	put_usage(g);
	text_put(&g->out, "}");
	finish_event(&g->out);
}

static void end_stream(struct generation* g) {
	struct text* out = &g->out;
	if (g->error.status) {
		char* text = messages_error_text(&g->error);
		if (text)
			text_print(out, "event: error\ndata: %s\n", text); /* which ends in one already */
		free(text);
		return;
	}
	begin_event(out, "message_delta");
	text_json(out, ", 'delta': {");
	put_stop(g);
	text_put(out, "}, ");
	put_usage(g);
	finish_event(out);
	begin_event(out, "message_stop");
	finish_event(out);
}

static void format_message(struct generation* g) {
	items_whole(g);
	put_head(g);
	text_put(&g->out, g->items.closed.data ? g->items.closed.data : "");
	text_put(&g->out, "], ");
	put_stop(g);
	text_put(&g->out, ", ");
	put_usage(g);
	text_put(&g->out, "}\n");
}

char* messages_error_text(const struct api_error* e) {
	const char* type = e->status == 401   ? "authentication_error"
	                   : e->status == 403 ? "permission_error"
	                   : e->status == 404 ? "not_found_error"
	                   : e->status == 413 ? "request_too_large"
	                   : e->status == 429 ? "rate_limit_error"
	                   : e->status == 503 ? "overloaded_error"
	                   : e->status >= 500 ? "api_error"
	                                      : "invalid_request_error";
	struct text out = {0};
	text_json(&out, "{'type': 'error', 'error': {'type': '%s', 'message': %q}}\n", type, e->message);
	return text_take(&out);
}

static const struct item_formatter blocks = {.open = open_block, .more = more_of_block, .close = close_block};
const struct response_formatter formatter_messages = {.id = "msg_",
                                                      .keepalive =
                                                          "event: ping\ndata: {\"type\": \"ping\"}\n\n",
                                                      .read = messages_read,
                                                      .first = first_events,
                                                      ITEM_STREAM(&blocks),
                                                      .end = end_stream,
                                                      .whole = format_message};
