/* Reads tool calls. It holds text back that may be a call until it is certain. */
#include "streams/service/tool_calls.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "kernels/synth_value.h"
#include "streams/json_text.h"

static const char tag_open[] = "<tool_call>", tag_close[] = "</tool_call>", list_open[] = "[TOOL_CALLS]",
                  functools_open[] = "functools[", python_open[] = "<|python_tag|>",
                  function_open[] = "<function=", function_close[] = "</function>",
                  arguments_open[] = "[ARGS]", id_open[] = "[CALL_ID]";
static const char fence_open[] = "```json", bare_fence[] = "```\n", fence_close[] = "```",
                  tools_open[] = "<tools>", tools_close[] = "</tools>";
/* The first two precede calls only if such text exists. */
static const char* const openers[] = {fence_open,    bare_fence, tag_open,       list_open, python_open,
                                      function_open, tools_open, functools_open, NULL};
const char* const tool_marks[] = {tag_open,       tag_close,      list_open, python_open, function_open,
                                  function_close, arguments_open, id_open,   NULL};

/* ---- text --------------------------------------------------------------------------------- */

size_t span_spaces(struct span s) {
	size_t n = 0;
	while (n < s.size && isspace((unsigned char)s.data[n]))
		n++;
	return n;
}

size_t span_trimmed(struct span s) {
	while (s.size && isspace((unsigned char)s.data[s.size - 1]))
		s.size--;
	return s.size;
}

struct span span_after(struct span s, size_t n) {
	return (struct span){s.data + n, s.size - n};
}

static struct span trim_span(struct span s) {
	s = span_after(s, span_spaces(s));
	return (struct span){s.data, span_trimmed(s)};
}

bool span_starts(struct span s, const char* with) {
	const size_t n = strlen(with);
	return s.size >= n && memcmp(s.data, with, n) == 0;
}

size_t span_find(struct span s, const char* what) {
	const char* at = s.size ? memmem(s.data, s.size, what, strlen(what)) : NULL;
	return at ? (size_t)(at - s.data) : s.size;
}

size_t span_first(struct span s, const char* const* marks, const char** which) {
	size_t first = s.size;
	*which = NULL;
	for (int i = 0; marks[i]; i++) {
		const size_t at = span_find(s, marks[i]);
		if (at < first) {
			first = at;
			*which = marks[i];
		}
	}
	return first;
}

size_t span_undecided(struct span s, const char* const* marks) {
	for (size_t n = s.size < 16 ? s.size : 16; n > 0; n--)
		for (int i = 0; marks[i]; i++)
			if (n < strlen(marks[i]) && memcmp(s.data + s.size - n, marks[i], n) == 0)
				return n;
	return 0;
}

static struct span held_text(const struct tool_reader* r) {
	return (struct span){r->held.data, r->held.size};
}

/* The held text up to n is content. White space alone is dropped before the first words and after a call. */
static void emit_content(struct tool_reader* r, size_t n) {
	const struct span s = {r->held.data, n};
	if (r->begun || span_spaces(s) < n) {
		text_add(&r->content, s.data, n);
		r->begun = true;
	}
}

/* ---- calls -------------------------------------------------------------------------------- */

/* The members of a call's object. */
enum { MEMBER_OTHER, MEMBER_NAME, MEMBER_ARGUMENTS, MEMBER_FUNCTION };

static char* string_of(struct span value) { /* of a JSON string; NULL: it is none */
	cJSON* json = value.data ? cJSON_ParseWithLength(value.data, value.size) : NULL;
	char* text = cJSON_IsString(json) ? strdup(json->valuestring) : NULL;
	cJSON_Delete(json);
	return text;
}

static struct span find_member(struct span object, const char* name) {
	struct span value = {NULL, 0};
	value.data = json_member(object.data, object.size, name, &value.size);
	return value;
}

static bool is_tool(const struct tool_reader* r, const char* name) {
	struct json_item item = {0};
	bool found = false;
	while (!found && r->tools && json_next(r->tools, strlen(r->tools), &item)) {
		const struct span tool = {item.value, item.value_size}, function = find_member(tool, "function");
		char* known = string_of(find_member(function.data ? function : tool, "name"));
		found = known && strcmp(known, name) == 0;
		free(known);
	}
	return found;
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
static void drop_read(struct tool_reader* r) {
	text_drop(&r->held, r->at);
	r->at = 0;
}

/* Announces the call: its name is known, and its arguments as far as they have arrived. */
static void announce_call(struct tool_reader* r) {
	r->announced = true;
	r->calls++;
	drop_read(r);
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

/* Ends the arguments of the present call, which may have none. */
static void end_call(struct tool_reader* r) {
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

static void begin_call(struct tool_reader* r, enum call_place place) {
	text_clear(&r->name);
	text_clear(&r->key);
	text_clear(&r->value);
	text_clear(&r->arguments);
	r->depth = 0;
	r->known = r->announced = false;
	r->place = place;
}

static void begin_value(struct tool_reader* r) {
	json_repair_free(&r->json);
	r->json = (struct json_repair){.state = REPAIR_VALUE};
	text_clear(&r->value);
}

/* True when arguments are required: without a mark, an object with a tool's name is not yet a call. */
static bool is_marked(const struct tool_reader* r) {
	return r->opener != fence_open && r->opener != bare_fence && r->opener != tools_open && *r->opener;
}

/* ---- members of a call's object ------------------------------------------------------------- */

static int member_of(const struct text* key) {
	static const char* const names[] = {"\"arguments\"", "\"parameters\"", "\"name\"", "\"function\""};
	static const int members[] = {MEMBER_ARGUMENTS, MEMBER_ARGUMENTS, MEMBER_NAME, MEMBER_FUNCTION};
	for (int i = 0; i < 4; i++)
		if (key->data && strcmp(key->data, names[i]) == 0)
			return members[i];
	return MEMBER_OTHER;
}

static bool end_key(struct tool_reader* r) {
	r->member = member_of(&r->key);
	r->place = CALL_VALUE;
	return is_marked(r) || r->member != MEMBER_OTHER || strcmp(r->key.data, "\"type\"") == 0 ||
	       strcmp(r->key.data, "\"id\"") == 0;
}

static bool take_name(struct tool_reader* r) {
	char* name = string_of((struct span){r->value.data, r->value.size});
	const bool good = name && *name && is_tool(r, name);
	text_clear(&r->name);
	text_put(&r->name, name ? name : "");
	free(name);
	if (good && r->known && !r->announced) /* its arguments stood before it */
		announce_call(r);
	return good;
}

/* Reads arguments that are no object: a string that holds one, or nothing. */
static bool take_other_arguments(struct tool_reader* r) {
	char* text = string_of((struct span){r->value.data, r->value.size});
	const struct span inside = text ? trim_span((struct span){text, strlen(text)}) : (struct span){"", 0};
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
		announce_call(r);
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
static bool begin_member(struct tool_reader* r, char c) {
	begin_value(r);
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
			announce_call(r);
		return c == '{' || c == '"' || c == 'n' || c == 'N';
	}
	return r->member != MEMBER_NAME || c == '"';
}

static bool is_object(const struct tool_reader* r) {
	return r->member == MEMBER_ARGUMENTS && (r->json.depth > 0 || r->arguments.size > 0) &&
	       r->value.size == 0;
}

/* More of a value. */
static bool take_value(struct tool_reader* r) {
	const struct span more = span_after(held_text(r), r->at);
	const bool arguments =
	    r->member == MEMBER_ARGUMENTS && (is_object(r) || (more.size && *more.data == '{' && !r->value.size));
	r->at += json_repair_add(&r->json, more.data, more.size, arguments ? &r->arguments : &r->value);
	if (r->announced)
		drop_read(r);
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
	if (!r->announced && (!r->name.size || (!r->known && !is_marked(r))))
		return false;
	if (!r->announced)
		announce_call(r);
	end_call(r);
	r->place = CALL_AFTER;
	return true;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The result of reading at a place: continue, wait for more bytes, not a call, or no more calls after this
 * opener. */
enum step { STEP_ON, STEP_WAIT, STEP_NONE, STEP_OVER };

static enum step step_if(bool good) { return good ? STEP_ON : STEP_NONE; }

static const char* closer_of(const char* opener) {
	return opener == tag_open                             ? tag_close
	       : opener == function_open                      ? function_close
	       : opener == tools_open                         ? tools_close
	       : opener == fence_open || opener == bare_fence ? fence_close
	                                                      : NULL;
}

static enum step read_before(struct tool_reader* r, char c) {
	if (c == '{') {
		begin_call(r, CALL_KEY);
		r->at++;
		return STEP_ON;
	}
	if (c == '[' && *r->opener && r->opener != function_open && !r->list) {
		r->list = true;
		r->at++;
		return STEP_ON;
	}
	if ((r->opener != list_open && r->opener != function_open) || r->list)
		return STEP_NONE;
	begin_call(r, CALL_NAME);
	return STEP_ON;
}

/* Reads NAME> of a function; NAME[CALL_ID]…[ARGS] or NAME alone before an object. */
static enum step read_name(struct tool_reader* r) {
	enum { LONGEST = 256 };
	static const char* const ends[] = {arguments_open, "{", NULL};
	const struct span s = span_after(held_text(r), r->at);
	const char* end = ">";
	const size_t n = r->opener == function_open ? span_find(s, ">") : span_first(s, ends, &end);
	if (n == s.size)
		return n > LONGEST ? STEP_NONE : STEP_WAIT;
	struct span name = {s.data, n};
	name.size = span_find(name, id_open); /* the model's own, before the arguments */
	name = trim_span(name);
	text_clear(&r->name);
	text_add(&r->name, name.data, name.size);
	r->at += n + (*end == '{' ? 0 : strlen(end));
	r->place = CALL_ARGUMENTS;
	return step_if(name.size && is_tool(r, r->name.data));
}

static enum step read_arguments(struct tool_reader* r, char c) {
	const char* closer = closer_of(r->opener);
	const struct span s = span_after(held_text(r), r->at);
	if (closer && s.size < strlen(closer) && memcmp(s.data, closer, s.size) == 0)
		return STEP_WAIT;
	if (closer && span_starts(s, closer)) { /* no arguments at all */
		announce_call(r);
		end_call(r);
		r->place = CALL_AFTER;
		return STEP_ON;
	}
	if (c != '{')
		return STEP_NONE;
	begin_value(r);
	r->member = MEMBER_ARGUMENTS;
	r->known = true;
	announce_call(r);
	r->place = CALL_IN_VALUE;
	return STEP_ON;
}

static enum step read_key(struct tool_reader* r, char c) {
	if (c == '}')
		return step_if(end_object(r));
	if (c == ',') {
		r->at++;
		return STEP_ON;
	}
	if (c != '"')
		return STEP_NONE;
	begin_value(r);
	text_clear(&r->key);
	r->place = CALL_IN_KEY;
	return STEP_ON;
}

static enum step read_in_key(struct tool_reader* r) {
	const struct span s = span_after(held_text(r), r->at);
	r->at += json_repair_add(&r->json, s.data, s.size, &r->key);
	return r->json.state == REPAIR_DONE ? step_if(end_key(r)) : STEP_ON;
}

static enum step read_after_member(struct tool_reader* r, char c) {
	if (r->opener == list_open || r->opener == function_open) {
		if (!r->list && r->key.size == 0) { /* the arguments were all of it */
			end_call(r);
			r->place = CALL_AFTER;
			return STEP_ON;
		}
	}
	if (c == '}')
		return step_if(end_object(r));
	if (c == ',') {
		r->at++;
		r->place = CALL_KEY;
		return STEP_ON;
	}
	if (!r->announced)
		return STEP_NONE;
	end_call(r); /* the object's own end is missing */
	r->place = CALL_AFTER;
	return STEP_ON;
}

static enum step read_after(struct tool_reader* r, char c) {
	const struct span s = span_after(held_text(r), r->at);
	const char* closer = closer_of(r->opener);
	const size_t n = closer ? strlen(closer) : 0;
	if (c == ',' || c == ';' || (c == ']' && r->list) || (c == '}' && is_marked(r))) {
		r->list = r->list && c != ']';
		r->at++;
		return STEP_ON;
	}
	if (c == '{' && r->opener != function_open) {
		begin_call(r, CALL_KEY);
		r->at++;
		return STEP_ON;
	}
	if (closer && span_starts(s, closer)) {
		r->at += n;
		return STEP_OVER;
	}
	if (closer && s.size < n && memcmp(s.data, closer, s.size) == 0)
		return STEP_WAIT;
	return STEP_OVER;
}

/* Takes one step in the held text; white space in between is skipped. */
static enum step read_place(struct tool_reader* r) {
	const bool inside = r->place == CALL_NAME || r->place == CALL_IN_KEY || r->place == CALL_IN_VALUE;
	if (!inside)
		r->at += span_spaces(span_after(held_text(r), r->at));
	/* the arguments end the call, and nothing has to follow */
	const bool whole = r->place == CALL_MEMBER && !r->list && r->key.size == 0;
	if (r->at == r->held.size && !whole)
		return STEP_WAIT;
	const char c = r->at < r->held.size ? r->held.data[r->at] : '\0';
	switch (r->place) {
	case CALL_BEFORE:
		return read_before(r, c);
	case CALL_NAME:
		return read_name(r);
	case CALL_KEY:
		return read_key(r, c);
	case CALL_IN_KEY:
		return read_in_key(r);
	case CALL_VALUE:
		if (c != ':')
			return step_if(begin_member(r, c));
		r->at++;
		return STEP_ON;
	case CALL_IN_VALUE:
		return step_if(take_value(r));
	case CALL_MEMBER:
		return read_after_member(r, c);
	case CALL_ARGUMENTS:
		return read_arguments(r, c);
	default:
		return read_after(r, c);
	}
}

/* ---- deciding ----------------------------------------------------------------------------- */

/* The text held since the opener is content after all; it may hold other openers. */
static void give_back(struct tool_reader* r) {
	if (!r->calls)
		text_put(&r->content, r->opener);
	r->begun = true;
	r->opener = NULL;
	r->at = 0;
}

static void open_calls(struct tool_reader* r, const char* opener) {
	r->opener = opener;
	r->place = CALL_BEFORE;
	r->list = opener == functools_open;
	r->at = 0;
	r->calls = 0;
}

/* True when there is more to decide. */
static bool decide_content(struct tool_reader* r) {
	static const char* const none[] = {NULL};
	const struct span s = held_text(r);
	const size_t blank = span_spaces(s);
	if (!r->begun && r->n == 0 && !r->tagged && blank < s.size && s.data[blank] == '{') {
		open_calls(r, "");
		return true;
	}
	const char* const* const marks = r->bound && r->begun ? none : r->tagged ? openers + 2 : openers;
	const char* opener;
	const size_t first = span_first(s, marks, &opener);
	if (opener && (!r->bound || first == blank)) {
		emit_content(r, first);
		text_drop(&r->held, first + strlen(opener));
		open_calls(r, opener);
		return true;
	}
	if (!r->begun && blank == s.size)
		return false;
	const size_t n = s.size - span_undecided(s, marks);
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
			drop_read(r);
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
	if (begun && !r->announced && r->cut && r->name.size && (r->known || is_marked(r)))
		announce_call(r);
	if (r->announced && open_call(r)) {
		if (r->place == CALL_IN_VALUE && r->member == MEMBER_ARGUMENTS && !r->cut)
			json_repair_close(&r->json, &r->arguments);
		end_call(r);
	} else if (r->place != CALL_AFTER && !r->announced && !(r->cut && r->n > 0)) {
		give_back(r);
		emit_content(r, r->held.size);
	}
}

void tool_reader_end(struct tool_reader* r) {
	decide_held(r);
	/* a value that only the end of the text ends: a call without a closing mark */
	if (r->opener && r->place == CALL_MEMBER && r->announced)
		end_call(r);
	if (r->opener)
		end_inside(r);
	else /* a limit cut off a tag after calls, whose beginning is not part of the text */
		emit_content(r, r->held.size - (r->cut && r->n > 0 ? span_undecided(held_text(r), openers) : 0));
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
	struct text* const texts[] = {&r->content, &r->held, &r->name, &r->key, &r->value, &r->arguments};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		text_free(texts[i]);
	json_repair_free(&r->json);
}

void tool_reader_add(struct tool_reader* r, const char* text, size_t size) {
	text_add(&r->held, text, size);
	decide_held(r);
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char channel_open[] = "<|channel|>", channel_call[] = "<|channel|>commentary to=functions.";
static const char hermes_call[] = "<tool_call>\n{\"name\":", hermes_begin[] = "<tool_call>\n{\"name\": \"";
/* trigger, some, all, begin, middle, end, close, between, finish, at_beginning */
const struct tool_syntax tool_syntax_generic = {
    tag_open, hermes_call, "", hermes_begin, "\", \"arguments\": ", "}", "\n</tool_call>", "\n", "", false};
static const struct tool_syntax
    mistral_list =
        {list_open, list_open, "[TOOL_CALLS][", "{\"name\": \"", "\", \"arguments\": ", "}", "", ", ",
         "]",       false},
    functools = {functools_open,
                 functools_open,
                 functools_open,
                 "{\"name\": \"",
                 "\", \"arguments\": ",
                 "}",
                 "",
                 ", ",
                 "]",
                 false},
    mistral_named = {list_open, list_open, "", list_open, arguments_open, "", "", "", "", false},
    functionary = {function_open, function_open, "", function_open, ">", "", function_close, "", "", false},
    llama = {"{", "{\"name\":", "", "{\"name\": \"", "\", \"parameters\": ", "}", "", "; ", "", true},
    channels = {channel_open, channel_call, "", channel_call, " <|constrain|>json<|message|>",
                "",           "<|call|>",   "", "",           false};

const struct tool_syntax* tool_syntax_of(const char* chat_template) {
	if (strstr(chat_template, channel_open))
		return &channels;
	if (strstr(chat_template, functools_open))
		return &functools;
	if (strstr(chat_template, tag_open))
		return &tool_syntax_generic;
	if (strstr(chat_template, list_open))
		return strstr(chat_template, arguments_open) ? &mistral_named : &mistral_list;
	if (strstr(chat_template, function_open))
		return &functionary;
	return strstr(chat_template, "parameters") ? &llama : NULL;
}

/* The text up to the arguments, or without a name up to the name. Trailing white space is left to the model,
 * whose own tokens may begin with it. */
void tool_syntax_begin(const struct tool_syntax* s, const char* name, struct text* out) {
	if (name)
		text_print(out, "%s%s%s%s", s->all, s->begin, name, s->middle);
	else
		text_put(out, s->some);
	while (out->size && out->data[out->size - 1] == ' ')
		out->data[--out->size] = '\0';
}
