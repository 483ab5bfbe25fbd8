/* Formats OpenAI's Responses: a response with its items, and the events of a stream. A stream names each item
 * when it opens and repeats it whole when it closes. A whole response is built from the same item stream. */
#include <stdlib.h>
#include <string.h>

#include "streams/service/chat_translation.h"
#include "streams/service/custom_tools.h"
#include "streams/service/generation.h"

static const char* id_suffix(const struct generation* g) { return g->id + strlen(formatter_responses.id); }

/* type and action make the event's name; action is "" or begins with a point, such as ".done". */
static void begin_event(struct generation* g, const char* type, const char* what) {
	text_json(&g->out, "event: response.%s%s\ndata: {'type': 'response.%s%s', 'sequence_number': %d", type,
	          what, type, what, g->items.events++);
}

static void finish_event(struct generation* g) { text_put(&g->out, "}\n\n"); }

/* ---- the response --------------------------------------------------------------------------- */

static void put_usage(struct generation* g) {
	text_json(&g->out,
	          "{'input_tokens': %l, 'input_tokens_details': {'cached_tokens': %l}, 'output_tokens': %l, "
	          "'output_tokens_details': {'reasoning_tokens': %l}, 'total_tokens': %l}",
	          g->usage.prompt_tokens, g->usage.cached_tokens, g->usage.completion_tokens,
	          g->usage.reasoning_tokens, g->usage.prompt_tokens + g->usage.completion_tokens);
}

/* An unfinished response has no usage yet, and a failed one has none. */
static void put_response(struct generation* g, const char* status) {
	struct text* out = &g->out;
	const bool cut = strcmp(status, "incomplete") == 0, error = strcmp(status, "failed") == 0;
	text_json(out, "{'id': '%s', 'object': 'response', 'created_at': %l, 'status': '%s', 'error': ", g->id,
	          (int64_t)g->created, status);
	text_json(out, error ? "{'code': 'server_error', 'message': %q}" : "null", g->error.message);
	text_json(out, ", 'incomplete_details': %s, 'model': %q, 'output': [%s], 'usage': ",
	          cut ? "{\"reason\": \"max_output_tokens\"}" : "null", g->server->option.work.model_name,
	          g->items.closed.data ? g->items.closed.data : "");
	if (cut || strcmp(status, "completed") == 0)
		put_usage(g);
	else
		text_put(out, "null");
	text_put(out, g->request.echoed ? g->request.echoed : "");
	text_put(out, "}");
}

static void put_state(struct generation* g, const char* type, const char* status) {
	begin_event(g, type, "");
	text_json(&g->out, ", 'response': ");
	put_response(g, status);
	finish_event(g);
}

/* ---- items ---------------------------------------------------------------------------------- */

static bool is_thought(const struct generation* g) { return g->items.open == ITEM_REASONING; }

/* The text so far, as a part of the open item. */
static void put_part(struct text* out, const struct generation* g) {
	text_json(out,
	          is_thought(g) ? "{'type': 'reasoning_text', 'text': %Q}"
	                        : "{'type': 'output_text', 'text': %Q, 'annotations': [], 'logprobs': [%s]}",
	          g->items.text.data, g->items.text.size, text_or_empty(&g->items.logprobs));
}

/* call: NULL when the open item is not a call. */
static void put_item(struct text* out, const struct generation* g, const struct tool_call* call, bool whole) {
	const char* status = whole ? "completed" : "in_progress";
	if (call) {
		const bool custom = custom_tools_have(g, call);
		char* input = whole && custom ? custom_tools_input(call) : NULL;
		text_json(out,
		          "{'type': '%s', 'id': 'fc_%s_%d', 'call_id': '%s', 'status': '%s', 'name': %q, '%s': %q}",
		          custom ? "custom_tool_call" : "function_call", id_suffix(g), g->items.count, call->id,
		          status, call->name, custom ? "input" : "arguments",
		          !whole   ? ""
		          : custom ? (input ? input : "")
		                   : call->arguments);
		free(input);
		return;
	}
	if (is_thought(g))
		text_json(out, "{'type': 'reasoning', 'id': 'rs_%s_%d', 'summary': [], 'content': [", id_suffix(g),
		          g->items.count);
	else
		text_json(out,
		          "{'type': 'message', 'id': 'msg_%s_%d', 'status': '%s', 'role': 'assistant', 'content': [",
		          id_suffix(g), g->items.count, status);
	if (whole)
		put_part(out, g);
	text_json(out, is_thought(g) ? "], 'status': '%s'}" : "]}", status);
}

/* {…, "item_id", "output_index", "content_index", which the events of a part have */
static void begin_part(struct generation* g, const char* type, const char* what) {
	begin_event(g, type, what);
	text_json(&g->out, ", 'item_id': '%s_%s_%d', 'output_index': %d, 'content_index': 0",
	          is_thought(g) ? "rs" : "msg", id_suffix(g), g->items.count, g->items.count);
}

static void put_item_event(struct generation* g, const struct tool_call* call, bool whole) {
	begin_event(g, "output_item", whole ? ".done" : ".added");
	text_json(&g->out, ", 'output_index': %d, 'item': ", g->items.count);
	put_item(&g->out, g, call, whole);
	finish_event(g);
}

static void put_part_event(struct generation* g, const char* what) {
	begin_part(g, "content_part", what);
	text_json(&g->out, ", 'part': ");
	put_part(&g->out, g);
	finish_event(g);
}

static void put_text_event(struct generation* g, const char* what, const char* name, const char* text,
                           size_t size, const struct text* logprobs) {
	begin_part(g, is_thought(g) ? "reasoning_text" : "output_text", what);
	text_json(&g->out, is_thought(g) ? ", '%s': %Q" : ", '%s': %Q, 'logprobs': [%s]", name, text, size,
	          text_or_empty(logprobs));
	finish_event(g);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void begin_input(struct generation* g, const struct tool_call* call, const char* what) {
	begin_event(g, custom_tools_have(g, call) ? "custom_tool_call_input" : "function_call_arguments", what);
	text_json(&g->out, ", 'item_id': 'fc_%s_%d', 'output_index': %d, ", id_suffix(g), g->items.count,
	          g->items.count);
}

/* A tool's free text arrives as JSON, so it is sent once it is complete. */
static void more_of_call(struct generation* g, const char* text, size_t size) {
	const struct tool_call* call = &g->choice[0].reader.tools.call[g->items.calls - 1];
	if (custom_tools_have(g, call))
		return;
	begin_input(g, call, ".delta");
	text_json(&g->out, "'delta': %Q}\n\n", text, size);
}

static void close_call(struct generation* g, const struct tool_call* call) {
	if (custom_tools_have(g, call)) {
		char* input = custom_tools_input(call);
		begin_input(g, call, ".delta");
		text_json(&g->out, "'delta': %q}\n\n", input ? input : "");
		begin_input(g, call, ".done");
		text_json(&g->out, "'input': %q}\n\n", input ? input : "");
		free(input);
	} else {
		begin_input(g, call, ".done");
		text_json(&g->out, "'name': %q, 'arguments': %q}\n\n", call->name, call->arguments);
	}
	put_item_event(g, call, true);
	put_item(&g->items.closed, g, call, true);
}

static void open_item(struct generation* g, const struct tool_call* call) {
	put_item_event(g, call, false);
	if (!call)
		put_part_event(g, ".added");
}

static void more_of_item(struct generation* g, const char* text, size_t size) {
	if (g->items.open == ITEM_CALL)
		more_of_call(g, text, size);
	else
		put_text_event(g, ".delta", "delta", text, size, &g->items.unsent);
}

static void close_item(struct generation* g, const struct tool_call* call) {
	if (call) {
		close_call(g, call);
		return;
	}
	put_text_event(g, ".done", "text", g->items.text.data, g->items.text.size, &g->items.logprobs);
	put_part_event(g, ".done");
	put_item_event(g, NULL, true);
	put_item(&g->items.closed, g, NULL, true);
}

/* ---- the formatter -------------------------------------------------------------------------- */

static void first_events(struct choice* c) {
	put_state(c->generation, "created", "in_progress");
	put_state(c->generation, "in_progress", "in_progress");
}

static const char* status_of(const struct generation* g) {
	return g->error.status                                ? "failed"
	       : g->choice[0].figures.stop == SWIFTLET_LENGTH ? "incomplete"
	                                                      : "completed";
}

static void end_stream(struct generation* g) { put_state(g, status_of(g), status_of(g)); }

static void format_response(struct generation* g) {
	items_whole(g);
	put_response(g, status_of(g));
	text_put(&g->out, "\n");
}

static const struct item_formatter items = {
    .open = open_item, .more = more_of_item, .close = close_item, .never_empty = true};
const struct response_formatter formatter_responses = {.id = "resp_",
                                                       .keepalive = ": still at it\n\n",
                                                       .read = responses_read,
                                                       .first = first_events,
                                                       ITEM_STREAM(&items),
                                                       .end = end_stream,
                                                       .whole = format_response};
