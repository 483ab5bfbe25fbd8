/* OpenAI's Responses as a voice: a response with its items, and the events of a stream, which name each item
 * as it opens, and tell it whole as it closes. A whole answer is the story that a stream would have told. */
#include <string.h>

#include "streams/service/chat_translation.h"
#include "streams/service/reply_voice.h"

static const char* suffix(const struct reply_head* h) { return h->id + strlen(voice_responses.id); }

static void begin(struct text* out, const struct reply_head* h, const char* type) {
	text_json(out, "event: %s\ndata: {'type': '%s', 'sequence_number': %d", type, type, h->story->events++);
}

static void finish(struct text* out) { text_put(out, "}\n\n"); }

/* ---- the response --------------------------------------------------------------------------- */

static void put_usage(struct text* out, const struct reply_usage* u) {
	text_json(out,
	          "{'input_tokens': %l, 'input_tokens_details': {'cached_tokens': %l}, 'output_tokens': %l, "
	          "'output_tokens_details': {'reasoning_tokens': %l}, 'total_tokens': %l}",
	          u->prompt_tokens, u->cached_tokens, u->completion_tokens, u->reasoning_tokens,
	          u->prompt_tokens + u->completion_tokens);
}

static void put_response(struct text* out, const struct reply_head* h, const char* status,
                         const struct reply_usage* u, const struct api_error* error) {
	const bool cut = strcmp(status, "incomplete") == 0;
	text_json(out, "{'id': '%s', 'object': 'response', 'created_at': %l, 'status': '%s', 'error': ", h->id,
	          h->created, status);
	text_json(out, error ? "{'code': 'server_error', 'message': %q}" : "null", error ? error->message : "");
	text_json(out, ", 'incomplete_details': %s, 'model': %q, 'output': [%s], 'usage': ",
	          cut ? "{\"reason\": \"max_output_tokens\"}" : "null", h->model,
	          h->story->said.data ? h->story->said.data : "");
	if (u)
		put_usage(out, u);
	else
		text_put(out, "null");
	text_put(out, h->echo ? h->echo : "");
	text_put(out, "}");
}

static void put_state(struct text* out, const struct reply_head* h, const char* event, const char* status,
                      const struct reply_usage* u, const struct api_error* error) {
	begin(out, h, event);
	text_json(out, ", 'response': ");
	put_response(out, h, status, u, error);
	finish(out);
}

/* ---- items ---------------------------------------------------------------------------------- */

static bool is_thought(const struct reply_head* h) { return h->story->open == STORY_REASONING; }

/* The text so far as a part of the item that is open. */
static void put_part(struct text* out, const struct reply_head* h) {
	text_json(out,
	          is_thought(h) ? "{'type': 'reasoning_text', 'text': %Q}"
	                        : "{'type': 'output_text', 'text': %Q, 'annotations': [], 'logprobs': []}",
	          h->story->text.data, h->story->text.size);
}

static void put_item(struct text* out, const struct reply_head* h, bool whole) {
	const char* status = whole ? "completed" : "in_progress";
	if (is_thought(h))
		text_json(out, "{'type': 'reasoning', 'id': 'rs_%s_%d', 'summary': [], 'content': [", suffix(h),
		          h->story->items);
	else
		text_json(out,
		          "{'type': 'message', 'id': 'msg_%s_%d', 'status': '%s', 'role': 'assistant', 'content': [",
		          suffix(h), h->story->items, status);
	if (whole)
		put_part(out, h);
	text_json(out, is_thought(h) ? "], 'status': '%s'}" : "]}", status);
}

/* {…, "item_id", "output_index", "content_index": its part's events have all three */
static void begin_part(struct text* out, const struct reply_head* h, const char* type) {
	begin(out, h, type);
	text_json(out, ", 'item_id': '%s_%s_%d', 'output_index': %d, 'content_index': 0",
	          is_thought(h) ? "rs" : "msg", suffix(h), h->story->items, h->story->items);
}

static void put_item_event(struct text* out, const struct reply_head* h, const char* type, bool whole) {
	begin(out, h, type);
	text_json(out, ", 'output_index': %d, 'item': ", h->story->items);
	put_item(out, h, whole);
	finish(out);
}

static void put_part_event(struct text* out, const struct reply_head* h, const char* type) {
	begin_part(out, h, type);
	text_json(out, ", 'part': ");
	put_part(out, h);
	finish(out);
}

static void put_text_event(struct text* out, const struct reply_head* h, const char* type, const char* name,
                           const char* text, size_t size) {
	begin_part(out, h, type);
	text_json(out, is_thought(h) ? ", '%s': %Q" : ", '%s': %Q, 'logprobs': []", name, text, size);
	finish(out);
}

static void open_item(struct text* out, const struct reply_head* h) {
	put_item_event(out, h, "response.output_item.added", false);
	put_part_event(out, h, "response.content_part.added");
}

static void more_of_item(struct text* out, const struct reply_head* h, const char* text, size_t size) {
	put_text_event(out, h, is_thought(h) ? "response.reasoning_text.delta" : "response.output_text.delta",
	               "delta", text, size);
}

static void close_item(struct text* out, const struct reply_head* h, struct text* item) {
	put_text_event(out, h, is_thought(h) ? "response.reasoning_text.done" : "response.output_text.done",
	               "text", h->story->text.data, h->story->text.size);
	put_part_event(out, h, "response.content_part.done");
	put_item_event(out, h, "response.output_item.done", true);
	put_item(item, h, true);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void put_call(struct text* out, const struct reply_head* h, const struct tool_call* call, bool whole) {
	text_json(out,
	          "{'type': 'function_call', 'id': 'fc_%s_%d', 'call_id': '%s', 'status': '%s', 'name': %q, "
	          "'arguments': %q}",
	          suffix(h), h->story->items, call->id, whole ? "completed" : "in_progress", call->name,
	          whole ? call->arguments : "");
}

static void put_call_event(struct text* out, const struct reply_head* h, const struct tool_call* call,
                           bool whole) {
	begin(out, h, whole ? "response.output_item.done" : "response.output_item.added");
	text_json(out, ", 'output_index': %d, 'item': ", h->story->items);
	put_call(out, h, call, whole);
	finish(out);
}

static void begin_arguments(struct text* out, const struct reply_head* h, const char* type) {
	begin(out, h, type);
	text_json(out, ", 'item_id': 'fc_%s_%d', 'output_index': %d, ", suffix(h), h->story->items,
	          h->story->items);
}

static void tell_call(struct text* out, const struct reply_head* h, const struct tool_call* call,
                      struct text* item) {
	put_call_event(out, h, call, false);
	begin_arguments(out, h, "response.function_call_arguments.delta");
	text_json(out, "'delta': %q}\n\n", call->arguments);
	begin_arguments(out, h, "response.function_call_arguments.done");
	text_json(out, "'name': %q, 'arguments': %q}\n\n", call->name, call->arguments);
	put_call_event(out, h, call, true);
	put_call(item, h, call, true);
}

/* ---- the voice ------------------------------------------------------------------------------ */

static void first_events(struct text* out, const struct reply_head* h, int index) {
	(void)index;
	put_state(out, h, "response.created", "in_progress", NULL, NULL);
	put_state(out, h, "response.in_progress", "in_progress", NULL, NULL);
}

static const char* status_of(const struct reply_story* s) {
	return s->stop == SWIFTLET_LENGTH ? "incomplete" : "completed";
}

static void end(struct text* out, const struct reply_head* h, const struct reply_usage* u,
                const struct api_error* error) {
	if (error)
		put_state(out, h, "response.failed", "failed", NULL, error);
	else
		put_state(out, h, h->story->stop == SWIFTLET_LENGTH ? "response.incomplete" : "response.completed",
		          status_of(h->story), u, NULL);
	out->failed |= story_failed(h->story);
}

static void whole(struct text* out, const struct reply_head* h, const struct reply_choice* c, int n,
                  const struct reply_usage* u) {
	(void)n;
	out->failed |= !story_whole(h, c);
	put_response(out, h, status_of(h->story), u, NULL);
	text_put(out, "\n");
}

static const struct story_voice items = {
    .open = open_item, .more = more_of_item, .close = close_item, .call = tell_call, .never_empty = true};
const struct reply_voice voice_responses = {
    .id = "resp_", .read = responses_read, .first = first_events, STORY(&items), .end = end, .whole = whole};
