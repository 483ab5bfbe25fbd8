/* Anthropic's Messages as a voice: a message with its blocks, the events of a stream, and errors. A whole
 * answer is the story that a stream would have told. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/service/messages.h"
#include "streams/service/reply_voice.h"

static void begin(struct text* out, const char* type) {
	text_print(out, "event: %s\ndata: {\"type\": \"%s\"", type, type);
}

static void finish(struct text* out) { text_put(out, "}\n\n"); }

static const char* stop_reason(const struct reply_story* s) {
	return s->stop == SWIFTLET_LENGTH ? "max_tokens"
	       : s->n_calls               ? "tool_use"
	       : s->stop_string >= 0      ? "stop_sequence"
	                                  : "end_turn";
}

static void put_stop(struct text* out, const struct reply_head* h) {
	const struct reply_story* s = h->story;
	text_print(out, "\"stop_reason\": \"%s\", \"stop_sequence\": ", stop_reason(s));
	if (strcmp(stop_reason(s), "stop_sequence") == 0)
		text_quote(out, h->stop[s->stop_string], strlen(h->stop[s->stop_string]));
	else
		text_put(out, "null");
}

/* Theirs leaves out of the input what a cache held. */
static void put_usage(struct text* out, const struct reply_usage* u) {
	text_print(out,
	           "{\"input_tokens\": %" PRId64
	           ", \"cache_creation_input_tokens\": 0, \"cache_read_input_tokens\": %" PRId64
	           ", \"output_tokens\": %" PRId64 "}",
	           u->prompt_tokens - u->cached_tokens, u->cached_tokens, u->completion_tokens);
}

/* {…, "content": [ */
static void put_head(struct text* out, const struct reply_head* h) {
	text_print(out, "{\"id\": \"%s\", \"type\": \"message\", \"role\": \"assistant\", \"model\": ", h->id);
	text_quote(out, h->model, strlen(h->model));
	text_put(out, ", \"content\": [");
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void put_block(struct text* out, enum story_part what, const char* text, size_t size) {
	const bool thought = what == STORY_REASONING;
	text_print(out, "{\"type\": \"%s\", \"%s\": ", thought ? "thinking" : "text",
	           thought ? "thinking" : "text");
	text_quote(out, text, size);
	text_put(out, thought ? ", \"signature\": \"\"}" : "}");
}

static void put_start(struct text* out, const struct reply_head* h) {
	begin(out, "content_block_start");
	text_print(out, ", \"index\": %d, \"content_block\": ", h->story->items);
}

static void put_delta(struct text* out, const struct reply_head* h, const char* type, const char* name,
                      const char* text, size_t size) {
	begin(out, "content_block_delta");
	text_print(out, ", \"index\": %d, \"delta\": {\"type\": \"%s\", \"%s\": ", h->story->items, type, name);
	text_quote(out, text, size);
	text_put(out, "}");
	finish(out);
}

static void put_block_end(struct text* out, const struct reply_head* h) {
	begin(out, "content_block_stop");
	text_print(out, ", \"index\": %d", h->story->items);
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

static const struct story_voice blocks = {open_block, more_of_block, close_block};

/* Theirs are objects: whatever else a model wrote is kept in one. */
static void put_input(struct text* out, const char* arguments) {
	struct error ignored;
	const size_t size = strlen(arguments);
	if (arguments[strspn(arguments, " \t\r\n")] == '{' && json_check(arguments, size, &ignored)) {
		text_put(out, arguments);
		return;
	}
	text_put(out, "{\"arguments\": ");
	text_quote(out, arguments, size);
	text_put(out, "}");
}

static void put_use(struct text* out, const struct tool_call* call, const char* input) {
	text_print(out, "{\"type\": \"tool_use\", \"id\": \"%s\", \"name\": ", call->id);
	text_quote(out, call->name, strlen(call->name));
	text_print(out, ", \"input\": ");
	text_put(out, input);
	text_put(out, "}");
}

static void calls(struct text* out, const struct reply_head* h, int index, const struct tool_call* call,
                  int first, int n) {
	(void)index;
	for (int i = first; i < n; i++) {
		struct text input = {0}, item = {0};
		story_close(out, h, &blocks);
		put_input(&input, call[i].arguments);
		put_start(out, h);
		put_use(out, &call[i], "{}");
		finish(out);
		put_delta(out, h, "input_json_delta", "partial_json", input.data ? input.data : "", input.size);
		put_block_end(out, h);
		put_use(&item, &call[i], input.data ? input.data : "{}");
		item.failed |= input.failed;
		story_keep(h->story, &item);
		text_free(&input);
		text_free(&item);
	}
}

/* ---- the voice ------------------------------------------------------------------------------ */

static void first_events(struct text* out, const struct reply_head* h, int index) {
	const struct reply_usage begun = {.prompt_tokens = h->prompt_tokens};
	(void)index;
	begin(out, "message_start");
	text_put(out, ", \"message\": ");
	put_head(out, h);
	text_put(out, "], \"stop_reason\": null, \"stop_sequence\": null, \"usage\": ");
	put_usage(out, &begun);
	text_put(out, "}");
	finish(out);
}

static void part(struct text* out, const struct reply_head* h, const struct reply_choice* c,
                 const char* detail) {
	(void)detail;
	story_tell(out, h, &blocks, c);
}

static void last(struct text* out, const struct reply_head* h, const struct reply_choice* c,
                 const char* detail) {
	(void)detail;
	story_close(out, h, &blocks);
	h->story->stop = c->stop;
	h->story->n_calls = c->n_calls;
	h->story->stop_string = c->stop_string;
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
	text_put(out, ", \"delta\": {");
	put_stop(out, h);
	text_put(out, "}, \"usage\": ");
	put_usage(out, u);
	finish(out);
	begin(out, "message_stop");
	finish(out);
	out->failed |= h->story->said.failed || h->story->text.failed;
}

static void whole(struct text* out, const struct reply_head* h, const struct reply_choice* c, int n,
                  const struct reply_usage* u) {
	(void)n;
	out->failed |= !story_whole(&voice_messages, h, c);
	put_head(out, h);
	text_add(out, h->story->said.data, h->story->said.size);
	text_put(out, "], ");
	put_stop(out, h);
	text_put(out, ", \"usage\": ");
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
	text_print(&out, "{\"type\": \"error\", \"error\": {\"type\": \"%s\", \"message\": ", type);
	text_quote(&out, e->message, strlen(e->message));
	text_put(&out, "}}\n");
	char* text = out.failed ? NULL : text_take(&out);
	text_free(&out);
	return text;
}

const struct reply_voice voice_messages = {.id = "msg_",
                                           .read = messages_read,
                                           .first = first_events,
                                           .part = part,
                                           .calls = calls,
                                           .last = last,
                                           .end = end,
                                           .whole = whole};
