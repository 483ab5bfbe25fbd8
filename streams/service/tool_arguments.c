/* Reads arguments one by one: between tags, and as in Python. The call's object is written from them. */
#include <ctype.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/service/tool_elements.h"
#include "streams/service/tool_reader.h"
#include "streams/service/tool_tags.h"

/* The call cannot be read on. */
static enum step read_broken(struct tool_reader* r) {
	if (!r->announced)
		return STEP_NONE;
	text_put(&r->arguments, "}");
	call_end(r);
	r->place = CALL_AFTER;
	return STEP_OVER;
}

static enum step end_members(struct tool_reader* r) {
	text_put(&r->arguments, r->arguments.size ? "}" : "{}");
	return step_if(call_finish(r));
}

/* Adds a member's name, and announces the call. */
static void begin_argument(struct tool_reader* r, struct span key) {
	text_put(&r->arguments, r->arguments.size ? ", " : "{");
	text_quote(&r->arguments, key.data, key.size);
	text_put(&r->arguments, ": ");
	call_begin_value(r);
	r->searched = 0;
	r->known = true;
}

/* KEY key_end, and the mark before the value. */
enum step call_read_tag_key(struct tool_reader* r) {
	const struct tool_format* const f = r->format;
	const struct span s = span_after(call_held(r), r->at);
	const size_t n = span_find(s, f->key_end);
	if (n > LONGEST_NAME)
		return read_broken(r);
	if (n == s.size)
		return STEP_WAIT;
	struct span rest = span_after(s, n + strlen(f->key_end)), word = {NULL, 0};
	if (f->typed_end) {
		word = (struct span){rest.data, span_find(rest, f->typed_end)};
		if (word.size == rest.size)
			return rest.size > LONGEST_NAME ? read_broken(r) : STEP_WAIT;
		rest = span_after(rest, word.size + strlen(f->typed_end));
	}
	if (f->value) {
		rest = span_after(rest, span_spaces(rest));
		if (span_may_start(rest, f->value))
			return STEP_WAIT;
		if (!span_starts(rest, f->value))
			return read_broken(r);
		rest = span_after(rest, strlen(f->value));
	} else if (f->lines && rest.size == 0)
		return STEP_WAIT;
	rest = f->lines && *rest.data == '\n' ? span_after(rest, 1) : rest;
	const struct span key = span_trim((struct span){s.data, n}), function = call_find_tool(r, r->name.data);
	r->types = tag_types(call_find_member(function, "parameters"), key);
	if (f->typed_end)
		r->types = span_starts(word, f->string_word) ? TAG_STRING : TAG_ANY & ~TAG_STRING;
	text_clear(&r->value_end);
	text_clear(&r->key);
	text_add(&r->key, key.data, key.size);
	if (f->element)
		text_print(&r->value_end, "%s</%s>", f->element, r->key.data ? r->key.data : "");
	else
		text_put(&r->value_end, f->value_end);
	if (r->value_end.failed || r->key.failed)
		return read_broken(r);
	begin_argument(r, key);
	text_put(&r->arguments, r->types == TAG_STRING ? "\"" : "");
	r->at = r->held.size - rest.size;
	if (!r->announced)
		call_announce(r);
	r->place = CALL_TAG_VALUE;
	return STEP_ON;
}

/* Passes n bytes of the value on; over: they are its last. */
static void add_value(struct tool_reader* r, size_t n, bool over) {
	const struct span more = {r->held.data + r->at, n};
	if (r->types == TAG_STRING)
		tag_escape(&r->arguments, more);
	else
		text_add(&r->value, more.data, more.size);
	r->at += n;
	if (r->types == TAG_STRING && over)
		text_put(&r->arguments, "\"");
	else if (over && r->format->element) {
		const struct span function = call_find_tool(r, r->name.data);
		elements_value(&r->arguments, span_of(&r->value), r->format->element,
		               call_find_member(function, "parameters"), span_of(&r->key));
	} else if (over)
		tag_value(&r->arguments, span_of(&r->value), r->types);
	if (r->announced)
		call_drop_read(r);
}

/* False: the value is JSON that a grammar has bound, and the mark after n more bytes stands within it. */
static bool may_end(const struct tool_reader* r, struct span s, size_t n) {
	struct text whole = {0};
	struct error ignored;
	if (r->types == TAG_STRING || !call_is_bound(r))
		return true;
	text_add(&whole, r->value.data, r->value.size);
	text_add(&whole, s.data, n);
	const struct span value = span_trim(span_of(&whole));
	const unsigned begins = !value.size          ? 0
	                        : *value.data == '"' ? TAG_STRING
	                        : *value.data == '[' ? TAG_LIST
	                        : *value.data == '{' ? TAG_OBJECT
	                                             : 0;
	const bool may = whole.failed || !(begins & r->types) || json_check(value.data, value.size, &ignored);
	text_free(&whole);
	return may;
}

/* A mark ends the value only if a member or an end of the call follows it: a text may contain the mark. */
enum step call_read_tag_value(struct tool_reader* r) {
	const struct tool_format* const f = r->format;
	const char* const marks[] = {f->element ? f->element : f->value_end, NULL};
	const struct span s = span_after(call_held(r), r->at);
	const size_t mark = r->value_end.size;
	enum step step = STEP_NONE;
	size_t n = r->searched;
	for (;; n += mark) {
		n += span_find(span_after(s, n), r->value_end.data);
		if (n == s.size)
			break;
		struct span rest = span_after(s, n + mark);
		rest = span_after(rest, span_spaces(rest));
		if (!may_end(r, s, n))
			continue;
		step = span_starts(rest, f->key)      ? STEP_ON
		       : span_may_start(rest, f->key) ? STEP_WAIT
		                                      : call_find_end(f, rest);
		if (step != STEP_NONE)
			break;
	}
	const bool over = n < s.size && step == STEP_ON;
	/* a text that may yet consist of elements is not passed on */
	const size_t element = over || !f->element ? s.size : span_find(s, f->element);
	size_t sure = n < s.size ? n : s.size - span_undecided(s, marks);
	sure = element < sure ? element : sure;
	sure -= f->lines && sure > 0 && s.data[sure - 1] == '\n'; /* it may be the one before the mark */
	add_value(r, sure, over);
	r->searched = n < s.size ? n - sure : 0;
	if (!over)
		return STEP_WAIT;
	r->at += n - sure + mark;
	r->place = CALL_TAG_AFTER;
	return STEP_ON;
}

enum step call_read_tag_after(struct tool_reader* r) {
	const struct tool_format* const f = r->format;
	const struct span s = span_after(call_held(r), r->at);
	const enum step end = call_find_end(f, s); /* first: it may begin as a key does */
	if (end != STEP_NONE || !span_starts(s, f->key))
		return end == STEP_ON ? end_members(r) : STEP_WAIT;
	r->at += strlen(f->key);
	r->place = CALL_TAG_KEY;
	return STEP_ON;
}

/* The value at the text's beginning is a value of Python, or all the arguments. */
static enum step begin_python(struct tool_reader* r) {
	r->json.python = true;
	if (!r->announced)
		call_announce(r);
	r->place = CALL_PYTHON_VALUE;
	return STEP_ON;
}

/* **{KEY: VALUE, …} */
static enum step read_python_object(struct tool_reader* r) {
	static const char mark[] = "**{";
	const struct span s = span_after(call_held(r), r->at);
	if (span_may_start(s, mark))
		return STEP_WAIT;
	if (r->known || !span_starts(s, mark))
		return read_broken(r);
	call_begin_value(r);
	r->known = true;
	r->member = MEMBER_ARGUMENTS;
	r->at += sizeof mark - 2;
	return begin_python(r);
}

enum step call_read_python_key(struct tool_reader* r, char c) {
	const struct span s = span_after(call_held(r), r->at);
	if (c == '*')
		return read_python_object(r);
	if (c == ')') {
		r->at++;
		return end_members(r);
	}
	size_t n = 0;
	while (n < s.size && (isalnum((unsigned char)s.data[n]) || s.data[n] == '_' || (s.data[n] & 0x80)))
		n++;
	const size_t equals = n + span_spaces(span_after(s, n));
	if (n > LONGEST_NAME || n == 0 || (equals < s.size && s.data[equals] != '='))
		return read_broken(r);
	if (equals == s.size)
		return STEP_WAIT;
	begin_argument(r, (struct span){s.data, n});
	r->at += equals + 1;
	return begin_python(r);
}

enum step call_read_python_value(struct tool_reader* r) {
	const struct span s = span_after(call_held(r), r->at);
	r->at += json_repair_add(&r->json, s.data, s.size, &r->arguments);
	if (r->announced)
		call_drop_read(r);
	if (r->json.state == REPAIR_DONE)
		r->place = CALL_PYTHON_AFTER;
	return STEP_ON;
}

enum step call_read_python_after(struct tool_reader* r, char c) {
	if (r->member == MEMBER_ARGUMENTS) { /* they were all of it */
		r->at += c == ')';
		return step_if(c == ')' && call_finish(r));
	}
	if (c != ',' && c != ')')
		return read_broken(r);
	r->at += c == ',';
	r->place = CALL_PYTHON_KEY;
	return STEP_ON;
}

/* Completes the arguments of a call that the text's end cut off. */
void call_close_arguments(struct tool_reader* r) {
	const char* const mark = r->format->element ? r->format->element : r->format->value_end;
	if (r->place == CALL_TAG_VALUE) {
		struct span rest = span_after(call_held(r), r->at);
		const size_t end = span_find(rest, mark);
		const char* const marks[] = {mark, NULL};
		rest.size = end < rest.size ? end : rest.size - span_undecided(rest, marks);
		rest.size -= r->format->lines && rest.size > 0 && rest.data[rest.size - 1] == '\n';
		add_value(r, rest.size, true);
	}
	if (r->place == CALL_PYTHON_VALUE || (r->place == CALL_IN_VALUE && r->member == MEMBER_ARGUMENTS))
		json_repair_close(&r->json, &r->arguments);
	if (r->place >= CALL_TAG_KEY && r->place <= CALL_PYTHON_AFTER && r->member != MEMBER_ARGUMENTS)
		text_put(&r->arguments, r->arguments.size ? "}" : "{}");
}
