/* OpenAI's Responses as a voice: a response with its items, and the events of a stream, which name each item
 * as it opens, and tell it whole as it closes. A whole answer is the story that a stream would have told. */
#include <inttypes.h>
#include <string.h>

#include "streams/service/reply_voice.h"
#include "streams/service/responses.h"

static const char* suffix(const struct reply_head* h) { return h->id + strlen(voice_responses.id); }

static void begin(struct text* out, const struct reply_head* h, const char* type) {
	text_print(out, "event: %s\ndata: {\"type\": \"%s\", \"sequence_number\": %d", type, type,
	           h->story->events++);
}

static void finish(struct text* out) { text_put(out, "}\n\n"); }

/* ---- the response --------------------------------------------------------------------------- */

static void put_usage(struct text* out, const struct reply_usage* u) {
	text_print(out,
	           "{\"input_tokens\": %" PRId64 ", \"input_tokens_details\": {\"cached_tokens\": %" PRId64
	           "}, \"output_tokens\": %" PRId64 ", \"output_tokens_details\": {\"reasoning_tokens\": %" PRId64
	           "}, \"total_tokens\": %" PRId64 "}",
	           u->prompt_tokens, u->cached_tokens, u->completion_tokens, u->reasoning_tokens,
	           u->prompt_tokens + u->completion_tokens);
}

static void put_response(struct text* out, const struct reply_head* h, const char* status,
                         const struct reply_usage* u, const struct api_error* error) {
	const struct reply_story* s = h->story;
	text_print(out,
	           "{\"id\": \"%s\", \"object\": \"response\", \"created_at\": %" PRId64
	           ", \"status\": \"%s\", \"error\": ",
	           h->id, h->created, status);
	if (error) {
		text_put(out, "{\"code\": \"server_error\", \"message\": ");
		text_quote(out, error->message, strlen(error->message));
		text_put(out, "}");
	} else
		text_put(out, "null");
	text_print(out, ", \"incomplete_details\": %s, \"model\": ",
	           strcmp(status, "incomplete") == 0 ? "{\"reason\": \"max_output_tokens\"}" : "null");
	text_quote(out, h->model, strlen(h->model));
	text_put(out, ", \"output\": [");
	text_add(out, s->said.data ? s->said.data : "", s->said.size);
	text_put(out, "], \"usage\": ");
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
	text_put(out, ", \"response\": ");
	put_response(out, h, status, u, error);
	finish(out);
}

/* ---- items ---------------------------------------------------------------------------------- */

static void put_item(struct text* out, const struct reply_head* h, bool whole) {
	const struct reply_story* s = h->story;
	const char* status = whole ? "completed" : "in_progress";
	const bool thought = s->open == STORY_REASONING;
	if (thought)
		text_print(out, "{\"type\": \"reasoning\", \"id\": \"rs_%s_%d\", \"summary\": [], \"content\": [",
		           suffix(h), s->items);
	else
		text_print(
		    out,
		    "{\"type\": \"message\", \"id\": \"msg_%s_%d\", \"status\": \"%s\", \"role\": \"assistant\", "
		    "\"content\": [",
		    suffix(h), s->items, status);
	if (whole) {
		text_print(out, "{\"type\": \"%s\", \"text\": ", thought ? "reasoning_text" : "output_text");
		text_quote(out, s->text.data ? s->text.data : "", s->text.size);
		text_put(out, thought ? "}" : ", \"annotations\": [], \"logprobs\": []}");
	}
	text_print(out, "]%s",
	           thought ? whole ? ", \"status\": \"completed\"}" : ", \"status\": \"in_progress\"}" : "}");
}

/* {…, "item_id", "output_index", "content_index": its part's events have all three */
static void begin_part(struct text* out, const struct reply_head* h, const char* type) {
	const struct reply_story* s = h->story;
	begin(out, h, type);
	text_print(out, ", \"item_id\": \"%s_%s_%d\", \"output_index\": %d, \"content_index\": 0",
	           s->open == STORY_REASONING ? "rs" : "msg", suffix(h), s->items, s->items);
}

static void put_item_event(struct text* out, const struct reply_head* h, const char* type, bool whole) {
	begin(out, h, type);
	text_print(out, ", \"output_index\": %d, \"item\": ", h->story->items);
	put_item(out, h, whole);
	finish(out);
}

static void put_part_event(struct text* out, const struct reply_head* h, const char* type) {
	const struct reply_story* s = h->story;
	begin_part(out, h, type);
	text_print(out, ", \"part\": {\"type\": \"%s\", \"text\": ",
	           s->open == STORY_REASONING ? "reasoning_text" : "output_text");
	text_quote(out, s->text.data ? s->text.data : "", s->text.size);
	text_put(out, s->open == STORY_REASONING ? "}" : ", \"annotations\": [], \"logprobs\": []}");
	finish(out);
}

static void open_item(struct text* out, const struct reply_head* h) {
	put_item_event(out, h, "response.output_item.added", false);
	put_part_event(out, h, "response.content_part.added");
}

static void more_of_item(struct text* out, const struct reply_head* h, const char* text, size_t size) {
	const bool thought = h->story->open == STORY_REASONING;
	begin_part(out, h, thought ? "response.reasoning_text.delta" : "response.output_text.delta");
	text_put(out, ", \"delta\": ");
	text_quote(out, text, size);
	text_put(out, thought ? "" : ", \"logprobs\": []");
	finish(out);
}

static void close_item(struct text* out, const struct reply_head* h, struct text* item) {
	const struct reply_story* s = h->story;
	const bool thought = s->open == STORY_REASONING;
	begin_part(out, h, thought ? "response.reasoning_text.done" : "response.output_text.done");
	text_put(out, ", \"text\": ");
	text_quote(out, s->text.data, s->text.size);
	text_put(out, thought ? "" : ", \"logprobs\": []");
	finish(out);
	put_part_event(out, h, "response.content_part.done");
	put_item_event(out, h, "response.output_item.done", true);
	put_item(item, h, true);
}

static const struct story_voice items = {open_item, more_of_item, close_item};

/* ---- calls ---------------------------------------------------------------------------------- */

static void put_call(struct text* out, const struct reply_head* h, const struct tool_call* call, bool whole) {
	text_print(out,
	           "{\"type\": \"function_call\", \"id\": \"fc_%s_%d\", \"call_id\": \"%s\", \"status\": \"%s\", "
	           "\"name\": ",
	           suffix(h), h->story->items, call->id, whole ? "completed" : "in_progress");
	text_quote(out, call->name, strlen(call->name));
	text_put(out, ", \"arguments\": ");
	text_quote(out, call->arguments, whole ? strlen(call->arguments) : 0);
	text_put(out, "}");
}

static void put_arguments(struct text* out, const struct reply_head* h, const struct tool_call* call,
                          bool whole) {
	begin(out, h, whole ? "response.function_call_arguments.done" : "response.function_call_arguments.delta");
	text_print(out, ", \"item_id\": \"fc_%s_%d\", \"output_index\": %d, ", suffix(h), h->story->items,
	           h->story->items);
	if (whole) {
		text_put(out, "\"name\": ");
		text_quote(out, call->name, strlen(call->name));
		text_put(out, ", \"arguments\": ");
	} else
		text_put(out, "\"delta\": ");
	text_quote(out, call->arguments, strlen(call->arguments));
	finish(out);
}

static void put_call_event(struct text* out, const struct reply_head* h, const struct tool_call* call,
                           bool whole) {
	begin(out, h, whole ? "response.output_item.done" : "response.output_item.added");
	text_print(out, ", \"output_index\": %d, \"item\": ", h->story->items);
	put_call(out, h, call, whole);
	finish(out);
}

static void calls(struct text* out, const struct reply_head* h, int index, const struct tool_call* call,
                  int first, int n) {
	(void)index;
	for (int i = first; i < n; i++) {
		struct text item = {0};
		story_close(out, h, &items);
		put_call_event(out, h, &call[i], false);
		put_arguments(out, h, &call[i], false);
		put_arguments(out, h, &call[i], true);
		put_call_event(out, h, &call[i], true);
		put_call(&item, h, &call[i], true);
		story_keep(h->story, &item);
		text_free(&item);
	}
}

/* ---- the voice ------------------------------------------------------------------------------ */

static void first_events(struct text* out, const struct reply_head* h, int index) {
	(void)index;
	put_state(out, h, "response.created", "in_progress", NULL, NULL);
	put_state(out, h, "response.in_progress", "in_progress", NULL, NULL);
}

static void part(struct text* out, const struct reply_head* h, const struct reply_choice* c,
                 const char* detail) {
	(void)detail;
	story_tell(out, h, &items, c);
}

/* An answer without a word is an empty message. */
static void last(struct text* out, const struct reply_head* h, const struct reply_choice* c,
                 const char* detail) {
	(void)detail;
	if (h->story->items == 0 && h->story->open == STORY_NOTHING)
		story_open(out, h, &items, STORY_TEXT);
	story_close(out, h, &items);
	h->story->stop = c->stop;
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
	out->failed |= h->story->said.failed || h->story->text.failed;
}

static void whole(struct text* out, const struct reply_head* h, const struct reply_choice* c, int n,
                  const struct reply_usage* u) {
	(void)n;
	out->failed |= !story_whole(&voice_responses, h, c);
	put_response(out, h, status_of(h->story), u, NULL);
	text_put(out, "\n");
}

const struct reply_voice voice_responses = {.id = "resp_",
                                            .read = responses_read,
                                            .first = first_events,
                                            .part = part,
                                            .calls = calls,
                                            .last = last,
                                            .end = end,
                                            .whole = whole};
