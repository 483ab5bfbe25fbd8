/* Reads tool calls. It holds text back that may be a call until it is certain. */
#include "streams/service/tool_calls.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "kernels/synth_value.h"
#include "streams/json_text.h"
#include "streams/service/tool_reader.h"

/* The held text up to n is content. White space alone is dropped before the first words and after a call. */
static void emit_content(struct tool_reader* r, size_t n) {
	const struct span s = {r->held.data, n};
	if (r->begun || span_spaces(s) < n) {
		text_add(&r->content, s.data, n);
		r->begun = true;
	}
}

/* ---- calls -------------------------------------------------------------------------------- */

char* call_string_of(struct span value) { /* of a JSON string; NULL: it is none */
	cJSON* json = value.data ? cJSON_ParseWithLength(value.data, value.size) : NULL;
	char* text = cJSON_IsString(json) ? strdup(json->valuestring) : NULL;
	cJSON_Delete(json);
	return text;
}

struct span call_find_member(struct span object, const char* name) {
	struct span value = {NULL, 0};
	value.data = json_member(object.data, object.size, name, &value.size);
	return value;
}

/* The function of that name; its data is NULL where there is none. */
struct span call_find_tool(const struct tool_reader* r, const char* name) {
	struct json_item item = {0};
	while (r->tools && json_next(r->tools, strlen(r->tools), &item)) {
		const struct span tool = {item.value, item.value_size}, inner = call_find_member(tool, "function");
		const struct span function = inner.data ? inner : tool;
		char* known = call_string_of(call_find_member(function, "name"));
		const bool found = known && strcmp(known, name) == 0;
		free(known);
		if (found)
			return function;
	}
	return (struct span){NULL, 0};
}

bool call_is_tool(const struct tool_reader* r, const char* name) {
	return call_find_tool(r, name).data != NULL;
}

/* NULL: a grammar has bound the call at hand, or it is not bound. */
static const struct tool_check* check_of(const struct tool_reader* r) {
	return call_is_bound(r) ? NULL : tool_check_of(r->checks, r->name.data ? r->name.data : "");
}

static void make_id(struct tool_reader* r, char id[TOOL_ID]) {
	static const char digits[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	uint64_t x = synth_mix(r->seed + 0x9e3779b97f4a7c15u * (uint64_t)r->n);
	for (int i = 0; i < TOOL_ID - 1; i++, x /= 62)
		id[i] = digits[x % 62];
	id[TOOL_ID - 1] = '\0';
}

/* The call that receives arguments; NULL: the present call does not count. */
static struct tool_call* open_call(struct tool_reader* r) {
	return r->n > 0 && !r->call[r->n - 1].ended ? &r->call[r->n - 1] : NULL;
}

/* Drops bytes of `held` that were read as part of the call. */
void call_drop_read(struct tool_reader* r) {
	text_drop(&r->held, r->at);
	r->at = 0;
}

/* Announces the call: its name is known, and its arguments as far as they have arrived. */
static void announce_now(struct tool_reader* r) {
	r->announced = true;
	r->calls++;
	call_drop_read(r);
	if (r->one && r->n > 0)
		return;
	char* name = strndup(r->name.data, r->name.size);
	r->failed |= !name || !grow_by_one(&r->call, (size_t)r->n, sizeof *r->call);
	if (r->failed) {
		free(name);
		return;
	}
	r->call[r->n] = (struct tool_call){.name = name};
	make_id(r, r->call[r->n].id);
	r->n++;
}

/* The same, unless the whole call has to be judged first. */
void call_announce(struct tool_reader* r) {
	if (!check_of(r))
		announce_now(r);
}

/* Ends the arguments of the present call, which may have none. */
void call_end(struct tool_reader* r) {
	struct tool_call* call = open_call(r);
	r->failed |= r->arguments.failed || r->json.held.failed;
	if (call && r->announced) {
		if (!r->arguments.size && !r->cut)
			text_put(&r->arguments, "{}");
		call->arguments = text_take(&r->arguments);
		call->ended = true;
		r->failed |= !call->arguments;
	}
	text_clear(&r->arguments);
	r->begun = false;
}

/* The call at hand is complete. False: it is not a call after all. */
bool call_finish(struct tool_reader* r) {
	const struct tool_check* const check = r->announced ? NULL : check_of(r);
	if (check && !(r->arguments.size ? tool_check_fits(check, r->arguments.data, r->arguments.size)
	                                 : tool_check_fits(check, "{}", 2)))
		return false;
	if (!r->announced)
		announce_now(r);
	call_end(r);
	r->place = CALL_AFTER;
	return true;
}

void call_begin(struct tool_reader* r, enum call_place place) {
	if (r->calls)
		call_drop_read(r);
	text_clear(&r->name);
	text_clear(&r->key);
	text_clear(&r->value);
	text_clear(&r->arguments);
	r->depth = 0;
	r->member = MEMBER_OTHER;
	r->known = r->announced = false;
	r->place = place;
}

void call_begin_value(struct tool_reader* r) {
	json_repair_free(&r->json);
	r->json = (struct json_repair){.state = REPAIR_VALUE};
	text_clear(&r->value);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The format of the text after the opener: the first row of it that fits. */
static enum step find_format(struct tool_reader* r, char c) {
	const struct span s = span_after(call_held(r), r->at);
	const bool object = c == '{' || c == '[';
	for (const struct tool_format* f = tool_formats; f->open; f++) {
		if (strcmp(f->open, r->opener) != 0)
			continue;
		const bool named = f->writing == WRITTEN_NAMED;
		if (named && span_may_start(s, f->before))
			return STEP_WAIT;
		if (named ? (*f->before ? span_starts(s, f->before) : !object)
		          : object || f->listed || f->writing == WRITTEN_PYTHON) {
			r->format = f;
			r->list = f->listed;
			return STEP_ON;
		}
	}
	return STEP_NONE;
}

/* Begins the call whose name the text after r->at begins with. */
static enum step begin_named(struct tool_reader* r) {
	call_begin(r, CALL_NAME);
	r->at += strlen(r->format->before);
	return STEP_ON;
}

static enum step read_before(struct tool_reader* r, char c) {
	if (!r->format)
		return find_format(r, c);
	if (r->format->writing == WRITTEN_NAMED)
		return begin_named(r);
	if (c == '[' && *r->opener && !r->list) {
		r->list = true;
		r->at++;
		return STEP_ON;
	}
	if (r->format->writing == WRITTEN_PYTHON)
		return begin_named(r);
	if (c != '{')
		return STEP_NONE;
	call_begin(r, CALL_KEY);
	r->at++;
	return STEP_ON;
}

/* Leaves out what stands around a name: [CALL_ID]…, or functions. and :NUMBER. */
static struct span bare_name(const struct tool_format* f, struct span name) {
	static const char package[] = "functions.";
	name.size = span_find(name, "[CALL_ID]"); /* the model's own, before the arguments */
	name = span_trim(name);
	if (!f->numbered)
		return name;
	size_t n = name.size;
	while (n > 0 && isdigit((unsigned char)name.data[n - 1]))
		n--;
	name.size = n > 0 && name.data[n - 1] == ':' ? n - 1 : name.size;
	return span_starts(name, package) ? span_after(name, sizeof package - 1) : name;
}

/* The end of the name at the text's beginning: the mark after it, or a character of the arguments. s.size:
 * it has not come. *mark: that mark's length. */
static size_t end_of_name(const struct tool_format* f, struct span s, size_t* mark) {
	size_t n = 0;
	while (n < s.size && (!s.data[n] || !strchr(f->name_ends, s.data[n])))
		n++;
	const size_t marked = f->name_end ? span_find(s, f->name_end) : s.size;
	*mark = marked < n ? strlen(f->name_end) : 0;
	return marked < n ? marked : n;
}

static enum step read_name(struct tool_reader* r) {
	const struct span s = span_after(call_held(r), r->at);
	size_t mark;
	const size_t n = end_of_name(r->format, s, &mark);
	if (n == s.size)
		return n > LONGEST_NAME ? STEP_NONE : STEP_WAIT;
	const struct span name = bare_name(r->format, (struct span){s.data, n});
	text_clear(&r->name);
	text_add(&r->name, name.data, name.size);
	r->at += n + mark;
	r->place = r->format->writing == WRITTEN_PYTHON ? CALL_PYTHON_KEY : CALL_ARGUMENTS;
	return step_if(name.size && call_is_tool(r, r->name.data));
}

/* What ends a call of the format at the beginning of s, or all of its calls: STEP_ON. STEP_WAIT: s may become
 * such a mark. */
enum step call_find_end(const struct tool_format* f, struct span s) {
	enum step step = STEP_NONE;
	for (int i = -1; i < CALL_ENDS; i++) {
		const char* const mark = i < 0 ? f->close : f->end[i];
		if (mark && span_starts(s, mark))
			return STEP_ON;
		if (mark && span_may_start(s, mark))
			step = STEP_WAIT;
	}
	return step;
}

static enum step read_arguments(struct tool_reader* r, char c) {
	const struct tool_format* const f = r->format;
	const struct span s = span_after(call_held(r), r->at);
	if (c == '{') {
		call_begin_value(r);
		r->member = MEMBER_ARGUMENTS;
		r->known = true;
		call_announce(r);
		r->place = CALL_IN_VALUE;
		return STEP_ON;
	}
	const enum step end = call_find_end(f, s); /* first: it may begin as a key does */
	if (end == STEP_ON)                        /* no arguments at all */
		return step_if(call_finish(r));
	if (end == STEP_NONE && f->key && span_starts(s, f->key)) {
		r->at += strlen(f->key);
		r->place = CALL_TAG_KEY;
		return STEP_ON;
	}
	return f->key && span_may_start(s, f->key) ? STEP_WAIT : end;
}

/* After the call of a named format: the marks that end it, and another one. */
static enum step read_after_named(struct tool_reader* r) {
	const struct tool_format* const f = r->format;
	const struct span s = span_after(call_held(r), r->at);
	if (f->close && span_starts(s, f->close)) {
		r->at += strlen(f->close);
		return STEP_OVER;
	}
	for (int i = 0; i < CALL_ENDS && f->end[i]; i++)
		if (span_starts(s, f->end[i])) {
			r->at += strlen(f->end[i]);
			return STEP_ON;
		}
	if (*f->before && span_starts(s, f->before))
		return begin_named(r);
	return call_find_end(f, s) == STEP_WAIT || (*f->before && span_may_start(s, f->before)) ? STEP_WAIT
	                                                                                        : STEP_OVER;
}

static enum step read_after(struct tool_reader* r, char c) {
	const struct span s = span_after(call_held(r), r->at);
	const char* closer = r->format->close;
	if (r->format->writing == WRITTEN_NAMED)
		return read_after_named(r);
	if (c == ',' || c == ';' || (c == ']' && r->list) || (c == '}' && call_is_marked(r))) {
		r->list = r->list && c != ']';
		r->at++;
		return STEP_ON;
	}
	if (r->format->writing == WRITTEN_PYTHON && r->list)
		return begin_named(r);
	if (c == '{' && r->format->writing == WRITTEN_OBJECT) {
		call_begin(r, CALL_KEY);
		r->at++;
		return STEP_ON;
	}
	if (closer && span_starts(s, closer)) {
		r->at += strlen(closer);
		return STEP_OVER;
	}
	return closer && span_may_start(s, closer) ? STEP_WAIT : STEP_OVER;
}

/* White space after a call belongs to the content, if content follows. */
static enum step read_after_spaces(struct tool_reader* r, size_t start) {
	const size_t at = r->at;
	const enum step step = read_after(r, r->held.data[at]);
	if (r->at == at && step != STEP_ON)
		r->at = start;
	return step;
}

/* Takes one step in the held text; white space in between is skipped. */
static enum step read_place(struct tool_reader* r) {
	const bool inside = r->place == CALL_NAME || r->place == CALL_IN_KEY || r->place == CALL_IN_VALUE ||
	                    r->place == CALL_TAG_KEY || r->place == CALL_TAG_VALUE ||
	                    (r->place == CALL_PYTHON_VALUE && !call_is_at_value(&r->json));
	/* the arguments end the call, and nothing has to follow */
	const bool whole = r->place == CALL_MEMBER && r->format->writing == WRITTEN_NAMED;
	const size_t start = r->at;
	if (!inside && !whole)
		r->at += span_spaces(span_after(call_held(r), r->at));
	if (r->at == r->held.size && !whole) {
		r->at = start;
		return STEP_WAIT;
	}
	const char c = r->at < r->held.size ? r->held.data[r->at] : '\0';
	switch (r->place) {
	case CALL_BEFORE:
		return read_before(r, c);
	case CALL_NAME:
		return read_name(r);
	case CALL_KEY:
		return call_read_key(r, c);
	case CALL_IN_KEY:
		return call_read_in_key(r);
	case CALL_VALUE:
		if (c != ':')
			return step_if(call_begin_member(r, c));
		r->at++;
		return STEP_ON;
	case CALL_IN_VALUE:
		return step_if(call_take_value(r));
	case CALL_MEMBER:
		return call_read_after_member(r, c);
	case CALL_ARGUMENTS:
		return read_arguments(r, c);
	case CALL_TAG_KEY:
		return call_read_tag_key(r);
	case CALL_TAG_VALUE:
		return call_read_tag_value(r);
	case CALL_TAG_AFTER:
		return call_read_tag_after(r);
	case CALL_PYTHON_KEY:
		return call_read_python_key(r, c);
	case CALL_PYTHON_VALUE:
		return call_read_python_value(r);
	case CALL_PYTHON_AFTER:
		return call_read_python_after(r, c);
	default:
		return read_after_spaces(r, start);
	}
}

/* ---- deciding ----------------------------------------------------------------------------- */

/* The text held since the opener is content after all; it may hold other openers. A call that was announced
 * has its arguments, and stays one: only the rest of its object is not as it should be. */
static void give_back(struct tool_reader* r) {
	if (open_call(r))
		call_end(r);
	if (!r->calls)
		text_put(&r->content, r->opener);
	r->begun = true;
	r->opener = NULL;
	r->at = 0;
}

static void open_calls(struct tool_reader* r, const char* opener) {
	r->opener = opener;
	r->format = *opener ? NULL : &tool_format_bare;
	r->place = CALL_BEFORE;
	r->list = false;
	r->at = 0;
	r->calls = 0;
}

/* True when there is more to decide. */
static bool decide_content(struct tool_reader* r) {
	static const char* const none[] = {NULL};
	const struct span s = call_held(r);
	const size_t blank = span_spaces(s);
	if (!r->begun && r->n == 0 && !r->tagged && blank < s.size && s.data[blank] == '{') {
		open_calls(r, "");
		return true;
	}
	const char* const* const marks = r->bound && r->begun ? none
	                                 : r->tagged          ? tool_openers + LOOSE_OPENERS
	                                                      : tool_openers;
	const char* opener;
	const size_t first = span_first(s, marks, &opener);
	if (opener && (!r->bound || first == blank)) {
		emit_content(r, first);
		text_drop(&r->held, first + strlen(opener));
		open_calls(r, opener);
		return true;
	}
	const size_t n = s.size - span_undecided(s, marks);
	if (!r->begun && blank >= n)
		return false;
	emit_content(r, n);
	text_drop(&r->held, n);
	return false;
}

static void decide_held(struct tool_reader* r) {
	for (bool more = r->held.size > 0; more;) {
		if (!r->opener) {
			more = decide_content(r);
			continue;
		}
		const enum step step = read_place(r);
		more = step != STEP_WAIT;
		if (step == STEP_NONE)
			give_back(r);
		else if (step == STEP_OVER) {
			r->opener = NULL;
			call_drop_read(r);
			more = r->held.size > 0;
		}
	}
	struct tool_call* call = open_call(r);
	if (call)
		call->arguments = r->arguments.data;
}

/* The text has ended inside a call. */
static void end_inside(struct tool_reader* r) {
	const bool begun = r->place != CALL_BEFORE && r->place != CALL_AFTER;
	if (begun && !r->announced && r->cut && r->name.size && (r->known || call_is_marked(r)))
		call_announce(r);
	const bool judged = begun && !r->announced && !r->cut && r->name.size && r->known && check_of(r);
	if ((r->announced && open_call(r)) || judged) {
		if (!r->cut)
			call_close_arguments(r);
		if (call_finish(r))
			return;
	}
	if (r->place != CALL_AFTER && !r->announced && !(r->cut && r->n > 0)) {
		give_back(r);
		emit_content(r, r->held.size);
	}
}

void tool_reader_end(struct tool_reader* r) {
	decide_held(r);
	/* a value that only the end of the text ends: a call without a closing mark */
	if (r->opener && r->place == CALL_MEMBER && r->announced)
		call_end(r);
	if (r->opener)
		end_inside(r);
	else /* a limit cut off a tag after calls, whose beginning is not part of the text */
		emit_content(r, r->held.size - (r->cut && r->n > 0 ? span_undecided(call_held(r), tool_openers) : 0));
	text_clear(&r->held);
	r->failed |= r->content.failed || r->held.failed || r->name.failed || r->key.failed || r->value.failed;
}

/* ---- from outside ------------------------------------------------------------------------- */

void tool_reader_open(struct tool_reader* r, const char* tools, bool only_one, uint64_t seed) {
	*r = (struct tool_reader){.tools = tools, .one = only_one, .seed = seed};
}

void tool_reader_close(struct tool_reader* r) {
	for (int i = 0; i < r->n; i++) {
		free(r->call[i].name);
		if (r->call[i].ended)
			free(r->call[i].arguments);
	}
	free(r->call);
	struct text* const texts[] = {&r->content, &r->held,      &r->name,     &r->key,
	                              &r->value,   &r->arguments, &r->value_end};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		text_free(texts[i]);
	json_repair_free(&r->json);
}

void tool_reader_add(struct tool_reader* r, const char* text, size_t size) {
	text_add(&r->held, text, size);
	decide_held(r);
}
