/* Reads calls that are objects with the name and the arguments. */
#include <stdlib.h>
#include <string.h>

#include "streams/service/tool_reader.h"

static int member_of(const struct text* key) {
	static const char* const names[] = {"\"arguments\"", "\"parameters\"", "\"name\"", "\"tool_name\"",
	                                    "\"function\""};
	static const int members[] = {MEMBER_ARGUMENTS, MEMBER_ARGUMENTS, MEMBER_NAME, MEMBER_NAME,
	                              MEMBER_FUNCTION};
	for (int i = 0; i < 5; i++)
		if (key->data && strcmp(key->data, names[i]) == 0)
			return members[i];
	return MEMBER_OTHER;
}

static bool end_key(struct tool_reader* r) {
	r->member = member_of(&r->key);
	r->place = CALL_VALUE;
	return call_is_marked(r) || r->member != MEMBER_OTHER || strcmp(r->key.data, "\"type\"") == 0 ||
	       strcmp(r->key.data, "\"id\"") == 0;
}

static bool take_name(struct tool_reader* r) {
	char* name = call_string_of((struct span){r->value.data, r->value.size});
	const bool good = name && *name && call_is_tool(r, name);
	text_clear(&r->name);
	text_put(&r->name, name ? name : "");
	free(name);
	if (good && r->known && !r->announced) /* its arguments stood before it */
		call_announce(r);
	return good;
}

/* Reads arguments that are no object: a string that holds one, or nothing. */
static bool take_other_arguments(struct tool_reader* r) {
	char* text = call_string_of((struct span){r->value.data, r->value.size});
	const struct span inside = text ? span_trim((struct span){text, strlen(text)}) : (struct span){"", 0};
	const bool none = strcmp(r->value.data, "null") == 0 || (text && !inside.size);
	bool good = none;
	if (!none && inside.size && *inside.data == '{') {
		struct json_repair json = {.state = REPAIR_VALUE};
		json_repair_add(&json, inside.data, inside.size, &r->arguments);
		if (json.state != REPAIR_DONE)
			json_repair_close(&json, &r->arguments);
		json_repair_free(&json);
		good = true;
	} else if (none)
		text_put(&r->arguments, "{}");
	free(text);
	if (good && r->name.size && !r->announced)
		call_announce(r);
	return good;
}

/* A value is complete. False: it is not a call. */
static bool end_value(struct tool_reader* r) {
	r->place = CALL_MEMBER;
	if (r->member == MEMBER_NAME)
		return take_name(r);
	return r->member != MEMBER_ARGUMENTS || r->value.size == 0 || take_other_arguments(r);
}

/* The value of a member begins with c. */
bool call_begin_member(struct tool_reader* r, char c) {
	call_begin_value(r);
	if (r->member == MEMBER_FUNCTION && c == '{') {
		r->depth++;
		r->at++;
		r->place = CALL_KEY;
		return true;
	}
	r->member = r->member == MEMBER_FUNCTION ? MEMBER_NAME : r->member;
	r->place = CALL_IN_VALUE;
	if (r->member == MEMBER_ARGUMENTS) {
		if (r->known)
			return false; /* a second time */
		r->known = true;
		text_clear(&r->arguments);
		if (r->name.size && c == '{')
			call_announce(r);
		return c == '{' || c == '"' || c == 'n' || c == 'N';
	}
	return r->member != MEMBER_NAME || c == '"';
}

static bool is_object(const struct tool_reader* r) {
	return r->member == MEMBER_ARGUMENTS && (r->json.depth > 0 || r->arguments.size > 0) &&
	       r->value.size == 0;
}

/* More of a value. */
bool call_take_value(struct tool_reader* r) {
	const struct span more = span_after(call_held(r), r->at);
	const bool arguments = r->member == MEMBER_ARGUMENTS &&
	                       (is_object(r) || (call_is_at_value(&r->json) && more.size && *more.data == '{'));
	r->at += json_repair_add(&r->json, more.data, more.size, arguments ? &r->arguments : &r->value);
	if (r->announced)
		call_drop_read(r);
	if (r->member == MEMBER_OTHER)
		text_clear(&r->value);
	return r->json.state != REPAIR_DONE || end_value(r);
}

/* An object's end. False: it is no call. */
static bool end_object(struct tool_reader* r) {
	r->at++;
	if (r->depth-- > 0) {
		r->place = CALL_MEMBER;
		return true;
	}
	return (r->announced || (r->name.size && (r->known || call_is_marked(r)))) && call_finish(r);
}

enum step call_read_key(struct tool_reader* r, char c) {
	if (c == '}')
		return step_if(end_object(r));
	if (c == ',') {
		r->at++;
		return STEP_ON;
	}
	if (c != '"')
		return STEP_NONE;
	call_begin_value(r);
	text_clear(&r->key);
	r->place = CALL_IN_KEY;
	return STEP_ON;
}

enum step call_read_in_key(struct tool_reader* r) {
	const struct span s = span_after(call_held(r), r->at);
	r->at += json_repair_add(&r->json, s.data, s.size, &r->key);
	return r->json.state == REPAIR_DONE ? step_if(end_key(r)) : STEP_ON;
}

enum step call_read_after_member(struct tool_reader* r, char c) {
	if (r->format->writing == WRITTEN_NAMED) /* the arguments were all of it */
		return step_if(call_finish(r));
	if (c == '}')
		return step_if(end_object(r));
	if (c == ',') {
		r->at++;
		r->place = CALL_KEY;
		return STEP_ON;
	}
	return step_if(r->announced && call_finish(r)); /* the object's own end is missing */
}
