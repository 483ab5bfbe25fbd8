/* OpenAI's Responses as a voice: a response with its items, and the events of a stream, which name each item
 * as it opens, and tell it whole as it closes. A whole answer is the story that a stream would have told. */
#include <string.h>

#include "streams/service/chat_translation.h"
#include "streams/service/exchange.h"

static const char* suffix(const struct exchange* x) { return x->id + strlen(voice_responses.id); }

/* what: what happens to that, ".done"; "": no more is to be said. */
static void begin(struct exchange* x, const char* type, const char* what) {
	text_json(&x->out, "event: response.%s%s\ndata: {'type': 'response.%s%s', 'sequence_number': %d", type,
	          what, type, what, x->story.events++);
}

static void finish(struct exchange* x) { text_put(&x->out, "}\n\n"); }

/* ---- the response --------------------------------------------------------------------------- */

static void put_usage(struct exchange* x) {
	text_json(&x->out,
	          "{'input_tokens': %l, 'input_tokens_details': {'cached_tokens': %l}, 'output_tokens': %l, "
	          "'output_tokens_details': {'reasoning_tokens': %l}, 'total_tokens': %l}",
	          x->usage.prompt_tokens, x->usage.cached_tokens, x->usage.completion_tokens,
	          x->usage.reasoning_tokens, x->usage.prompt_tokens + x->usage.completion_tokens);
}

/* Before its end it has no usage yet, and where it failed none. */
static void put_response(struct exchange* x, const char* status) {
	struct text* out = &x->out;
	const bool cut = strcmp(status, "incomplete") == 0, error = strcmp(status, "failed") == 0;
	text_json(out, "{'id': '%s', 'object': 'response', 'created_at': %l, 'status': '%s', 'error': ", x->id,
	          (int64_t)x->created, status);
	text_json(out, error ? "{'code': 'server_error', 'message': %q}" : "null", x->error.message);
	text_json(out, ", 'incomplete_details': %s, 'model': %q, 'output': [%s], 'usage': ",
	          cut ? "{\"reason\": \"max_output_tokens\"}" : "null", x->server->option.work.model_name,
	          x->story.said.data ? x->story.said.data : "");
	if (cut || strcmp(status, "completed") == 0)
		put_usage(x);
	else
		text_put(out, "null");
	text_put(out, x->request.echoed ? x->request.echoed : "");
	text_put(out, "}");
}

static void put_state(struct exchange* x, const char* type, const char* status) {
	begin(x, type, "");
	text_json(&x->out, ", 'response': ");
	put_response(x, status);
	finish(x);
}

/* ---- items ---------------------------------------------------------------------------------- */

static bool is_thought(const struct exchange* x) { return x->story.open == STORY_REASONING; }

/* The text so far as a part of the item that is open. */
static void put_part(struct text* out, const struct exchange* x) {
	text_json(out,
	          is_thought(x) ? "{'type': 'reasoning_text', 'text': %Q}"
	                        : "{'type': 'output_text', 'text': %Q, 'annotations': [], 'logprobs': []}",
	          x->story.text.data, x->story.text.size);
}

/* call: NULL where the item is not one but what is open. */
static void put_item(struct text* out, const struct exchange* x, const struct tool_call* call, bool whole) {
	const char* status = whole ? "completed" : "in_progress";
	if (call) {
		text_json(out,
		          "{'type': 'function_call', 'id': 'fc_%s_%d', 'call_id': '%s', 'status': '%s', 'name': %q, "
		          "'arguments': %q}",
		          suffix(x), x->story.items, call->id, status, call->name, whole ? call->arguments : "");
		return;
	}
	if (is_thought(x))
		text_json(out, "{'type': 'reasoning', 'id': 'rs_%s_%d', 'summary': [], 'content': [", suffix(x),
		          x->story.items);
	else
		text_json(out,
		          "{'type': 'message', 'id': 'msg_%s_%d', 'status': '%s', 'role': 'assistant', 'content': [",
		          suffix(x), x->story.items, status);
	if (whole)
		put_part(out, x);
	text_json(out, is_thought(x) ? "], 'status': '%s'}" : "]}", status);
}

/* {…, "item_id", "output_index", "content_index": its part's events have all three */
static void begin_part(struct exchange* x, const char* type, const char* what) {
	begin(x, type, what);
	text_json(&x->out, ", 'item_id': '%s_%s_%d', 'output_index': %d, 'content_index': 0",
	          is_thought(x) ? "rs" : "msg", suffix(x), x->story.items, x->story.items);
}

static void put_item_event(struct exchange* x, const struct tool_call* call, bool whole) {
	begin(x, "output_item", whole ? ".done" : ".added");
	text_json(&x->out, ", 'output_index': %d, 'item': ", x->story.items);
	put_item(&x->out, x, call, whole);
	finish(x);
}

static void put_part_event(struct exchange* x, const char* what) {
	begin_part(x, "content_part", what);
	text_json(&x->out, ", 'part': ");
	put_part(&x->out, x);
	finish(x);
}

static void put_text_event(struct exchange* x, const char* what, const char* name, const char* text,
                           size_t size) {
	begin_part(x, is_thought(x) ? "reasoning_text" : "output_text", what);
	text_json(&x->out, is_thought(x) ? ", '%s': %Q" : ", '%s': %Q, 'logprobs': []", name, text, size);
	finish(x);
}

static void open_item(struct exchange* x) {
	put_item_event(x, NULL, false);
	put_part_event(x, ".added");
}

static void more_of_item(struct exchange* x, const char* text, size_t size) {
	put_text_event(x, ".delta", "delta", text, size);
}

static void close_item(struct exchange* x) {
	put_text_event(x, ".done", "text", x->story.text.data, x->story.text.size);
	put_part_event(x, ".done");
	put_item_event(x, NULL, true);
	put_item(&x->story.said, x, NULL, true);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void begin_arguments(struct exchange* x, const char* what) {
	begin(x, "function_call_arguments", what);
	text_json(&x->out, ", 'item_id': 'fc_%s_%d', 'output_index': %d, ", suffix(x), x->story.items,
	          x->story.items);
}

static void tell_call(struct exchange* x, const struct tool_call* call) {
	put_item_event(x, call, false);
	begin_arguments(x, ".delta");
	text_json(&x->out, "'delta': %q}\n\n", call->arguments);
	begin_arguments(x, ".done");
	text_json(&x->out, "'name': %q, 'arguments': %q}\n\n", call->name, call->arguments);
	put_item_event(x, call, true);
	put_item(&x->story.said, x, call, true);
}

/* ---- the voice ------------------------------------------------------------------------------ */

static void first_events(struct choice* c) {
	put_state(c->exchange, "created", "in_progress");
	put_state(c->exchange, "in_progress", "in_progress");
}

static const char* status_of(const struct exchange* x) {
	return x->error.status                                ? "failed"
	       : x->choice[0].figures.stop == SWIFTLET_LENGTH ? "incomplete"
	                                                      : "completed";
}

static void end(struct exchange* x) { put_state(x, status_of(x), status_of(x)); }

static void whole(struct exchange* x) {
	story_whole(x);
	put_response(x, status_of(x));
	text_put(&x->out, "\n");
}

static const struct story_voice items = {
    .open = open_item, .more = more_of_item, .close = close_item, .call = tell_call, .never_empty = true};
const struct reply_voice voice_responses = {
    .id = "resp_", .read = responses_read, .first = first_events, STORY(&items), .end = end, .whole = whole};
