/* Anthropic's Messages as a voice: a message with its blocks, the events of a stream, and errors. A whole
 * answer is the story that a stream would have told. */
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/service/chat_translation.h"
#include "streams/service/reply_voice.h"

static void begin(struct text* out, const char* type) {
	text_json(out, "event: %s\ndata: {'type': '%s'", type, type);
}

static void finish(struct text* out) { text_put(out, "}\n\n"); }

static void put_stop(struct text* out, const struct reply_head* h) {
	const struct reply_story* s = h->story;
	const char* string = NULL;
	const char* reason = "end_turn";
	if (s->stop == SWIFTLET_LENGTH)
		reason = "max_tokens";
	else if (s->n_calls)
		reason = "tool_use";
	else if (s->stop_string >= 0) {
		reason = "stop_sequence";
		string = h->stop[s->stop_string];
	}
	text_json(out, "'stop_reason': '%s', 'stop_sequence': %q", reason, string);
}

/* Theirs leaves out of the input what a cache held. */
static void put_usage(struct text* out, const struct reply_usage* u) {
	text_json(
	    out,
	    "'usage': {'input_tokens': %l, 'cache_creation_input_tokens': 0, 'cache_read_input_tokens': %l, "
	    "'output_tokens': %l}",
	    u->prompt_tokens - u->cached_tokens, u->cached_tokens, u->completion_tokens);
}

/* {…, "content": [ */
static void put_head(struct text* out, const struct reply_head* h) {
	text_json(out, "{'id': '%s', 'type': 'message', 'role': 'assistant', 'model': %q, 'content': [", h->id,
	          h->model);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void put_block(struct text* out, enum story_part what, const char* text, size_t size) {
	text_json(out,
	          what == STORY_REASONING ? "{'type': 'thinking', 'thinking': %Q, 'signature': ''}"
	                                  : "{'type': 'text', 'text': %Q}",
	          text, size);
}

static void put_start(struct text* out, const struct reply_head* h) {
	begin(out, "content_block_start");
	text_json(out, ", 'index': %d, 'content_block': ", h->story->items);
}

static void put_delta(struct text* out, const struct reply_head* h, const char* type, const char* name,
                      const char* text, size_t size) {
	begin(out, "content_block_delta");
	text_json(out, ", 'index': %d, 'delta': {'type': '%s', '%s': %Q}", h->story->items, type, name, text,
	          size);
	finish(out);
}

static void put_block_end(struct text* out, const struct reply_head* h) {
	begin(out, "content_block_stop");
	text_json(out, ", 'index': %d", h->story->items);
	finish(out);
}

static void open_block(struct text* out, const struct reply_head* h) {
	put_start(out, h);
	put_block(out, h->story->open, "", 0);
	finish(out);
}

static void more_of_block(struct text* out, const struct reply_head* h, const char* text, size_t size) {
	const bool thought = h->story->open == STORY_REASONING;
	put_delta(out, h, thought ? "thinking_delta" : "text_delta", thought ? "thinking" : "text", text, size);
}

static void close_block(struct text* out, const struct reply_head* h, struct text* item) {
	put_block_end(out, h);
	put_block(item, h->story->open, h->story->text.data, h->story->text.size);
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

static void tell_call(struct text* out, const struct reply_head* h, const struct tool_call* call,
                      struct text* item) {
	struct text input = {0};
	put_input(&input, call->arguments);
	put_start(out, h);
	put_use(out, call, "{}");
	finish(out);
	put_delta(out, h, "input_json_delta", "partial_json", input.data, input.size);
	put_block_end(out, h);
	put_use(item, call, input.data ? input.data : "{}");
	item->failed |= input.failed;
	text_free(&input);
}

/* ---- the voice ------------------------------------------------------------------------------ */

static void first_events(struct text* out, const struct reply_head* h, int index) {
	const struct reply_usage begun = {.prompt_tokens = h->prompt_tokens};
	(void)index;
	begin(out, "message_start");
	text_json(out, ", 'message': ");
	put_head(out, h);
	text_json(out, "], 'stop_reason': null, 'stop_sequence': null, ");
	put_usage(out, &begun);
	text_put(out, "}");
	finish(out);
}

static void end(struct text* out, const struct reply_head* h, const struct reply_usage* u,
                const struct api_error* error) {
	if (error) {
		char* text = messages_error_text(error);
		if (text)
			text_print(out, "event: error\ndata: %.*s\n\n", (int)strcspn(text, "\n"), text);
		free(text);
		return;
	}
	begin(out, "message_delta");
	text_json(out, ", 'delta': {");
	put_stop(out, h);
	text_put(out, "}, ");
	put_usage(out, u);
	finish(out);
	begin(out, "message_stop");
	finish(out);
	out->failed |= story_failed(h->story);
}

static void whole(struct text* out, const struct reply_head* h, const struct reply_choice* c, int n,
                  const struct reply_usage* u) {
	(void)n;
	out->failed |= !story_whole(h, c);
	put_head(out, h);
	text_put(out, h->story->said.data ? h->story->said.data : "");
	text_put(out, "], ");
	put_stop(out, h);
	text_put(out, ", ");
	put_usage(out, u);
	text_put(out, "}\n");
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
