/* Anthropic's Messages as a voice: a message with its blocks, the events of a stream, and errors. A whole
 * answer is the story that a stream would have told. */
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/service/chat_translation.h"
#include "streams/service/exchange.h"

static void begin(struct text* out, const char* type) {
	text_json(out, "event: %s\ndata: {'type': '%s'", type, type);
}

static void finish(struct text* out) { text_put(out, "}\n\n"); }

static void put_stop(struct exchange* x) {
	const struct choice* c = &x->choice[0];
	const char* string = NULL;
	const char* reason = "end_turn";
	if (c->figures.stop == SWIFTLET_LENGTH)
		reason = "max_tokens";
	else if (c->reader.tools.n)
		reason = "tool_use";
	else if (c->figures.stop_string >= 0) {
		reason = "stop_sequence";
		string = x->request.stop[c->figures.stop_string];
	}
	text_json(&x->out, "'stop_reason': '%s', 'stop_sequence': %q", reason, string);
}

/* Theirs leaves out of the input what a cache held. */
static void put_usage(struct exchange* x) {
	text_json(
	    &x->out,
	    "'usage': {'input_tokens': %l, 'cache_creation_input_tokens': 0, 'cache_read_input_tokens': %l, "
	    "'output_tokens': %l}",
	    x->usage.prompt_tokens - x->usage.cached_tokens, x->usage.cached_tokens, x->usage.completion_tokens);
}

/* {…, "content": [ */
static void put_head(struct exchange* x) {
	text_json(&x->out, "{'id': '%s', 'type': 'message', 'role': 'assistant', 'model': %q, 'content': [",
	          x->id, x->server->option.work.model_name);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void put_block(struct text* out, enum story_part what, const char* text, size_t size) {
	text_json(out,
	          what == STORY_REASONING ? "{'type': 'thinking', 'thinking': %Q, 'signature': ''}"
	                                  : "{'type': 'text', 'text': %Q}",
	          text, size);
}

static void put_start(struct exchange* x) {
	begin(&x->out, "content_block_start");
	text_json(&x->out, ", 'index': %d, 'content_block': ", x->story.items);
}

static void put_delta(struct exchange* x, const char* type, const char* name, const char* text, size_t size) {
	begin(&x->out, "content_block_delta");
	text_json(&x->out, ", 'index': %d, 'delta': {'type': '%s', '%s': %Q}", x->story.items, type, name, text,
	          size);
	finish(&x->out);
}

static void put_block_end(struct exchange* x) {
	begin(&x->out, "content_block_stop");
	text_json(&x->out, ", 'index': %d", x->story.items);
	finish(&x->out);
}

static void open_block(struct exchange* x) {
	put_start(x);
	put_block(&x->out, x->story.open, "", 0);
	finish(&x->out);
}

static void more_of_block(struct exchange* x, const char* text, size_t size) {
	const bool thought = x->story.open == STORY_REASONING;
	put_delta(x, thought ? "thinking_delta" : "text_delta", thought ? "thinking" : "text", text, size);
}

static void close_block(struct exchange* x) {
	put_block_end(x);
	put_block(&x->story.said, x->story.open, x->story.text.data, x->story.text.size);
}

/* Theirs are objects: whatever else a model wrote is kept in one. */
static void put_input(struct text* out, const char* arguments) {
	struct error ignored;
	const bool object =
	    arguments[strspn(arguments, " \t\r\n")] == '{' && json_check(arguments, strlen(arguments), &ignored);
	text_json(out, object ? "%s" : "{'arguments': %q}", arguments);
}

static void put_use(struct text* out, const struct tool_call* call, const char* input) {
	text_json(out, "{'type': 'tool_use', 'id': '%s', 'name': %q, 'input': %s}", call->id, call->name, input);
}

static void tell_call(struct exchange* x, const struct tool_call* call) {
	struct text input = {0};
	put_input(&input, call->arguments);
	put_start(x);
	put_use(&x->out, call, "{}");
	finish(&x->out);
	put_delta(x, "input_json_delta", "partial_json", input.data, input.size);
	put_block_end(x);
	put_use(&x->story.said, call, input.data ? input.data : "{}");
	x->story.said.failed |= input.failed;
	text_free(&input);
}

/* ---- the voice ------------------------------------------------------------------------------ */

static void first_events(struct choice* c) {
	struct exchange* x = c->exchange;
	begin(&x->out, "message_start");
	text_json(&x->out, ", 'message': ");
	put_head(x);
	text_json(&x->out, "], 'stop_reason': null, 'stop_sequence': null, ");
	put_usage(x);
	text_put(&x->out, "}");
	finish(&x->out);
}

static void end(struct exchange* x) {
	struct text* out = &x->out;
	if (x->error.status) {
		char* text = messages_error_text(&x->error);
		if (text)
			text_print(out, "event: error\ndata: %s\n", text); /* which ends in one already */
		free(text);
		return;
	}
	begin(out, "message_delta");
	text_json(out, ", 'delta': {");
	put_stop(x);
	text_put(out, "}, ");
	put_usage(x);
	finish(out);
	begin(out, "message_stop");
	finish(out);
}

static void whole(struct exchange* x) {
	story_whole(x);
	put_head(x);
	text_put(&x->out, x->story.said.data ? x->story.said.data : "");
	text_put(&x->out, "], ");
	put_stop(x);
	text_put(&x->out, ", ");
	put_usage(x);
	text_put(&x->out, "}\n");
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

static const struct story_voice blocks = {
    .open = open_block, .more = more_of_block, .close = close_block, .call = tell_call};
const struct reply_voice voice_messages = {
    .id = "msg_", .read = messages_read, .first = first_events, STORY(&blocks), .end = end, .whole = whole};
