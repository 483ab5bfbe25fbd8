/* A reader that holds back what may be a call until it is known. */
#include "streams/service/tool_calls.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "kernels/synth_value.h"
#include "streams/json_text.h"

static const char tag_open[] = "<tool_call>", tag_close[] = "</tool_call>", list_open[] = "[TOOL_CALLS]",
                  python_open[] = "<|python_tag|>",
                  function_open[] = "<function=", function_close[] = "</function>",
                  arguments_open[] = "[ARGS]", id_open[] = "[CALL_ID]";
static const char* const openers[] = {tag_open, list_open, python_open, function_open, NULL};
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

/* The bytes of the object or list that s begins with; 0: it is not whole. */
static size_t value_size(struct span s) {
	int depth = 0;
	bool quoted = false;
	for (size_t i = 0; i < s.size; i++) {
		const char c = s.data[i];
		if (quoted) {
			i += c == '\\';
			quoted = c != '"';
		} else if (c == '"')
			quoted = true;
		else if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && --depth == 0)
			return i + 1;
	}
	return 0;
}

static struct span held_text(const struct tool_reader* r) {
	return (struct span){r->held.data, r->held.size};
}

/* Content is what was held, up to n; white space alone is none before the first words and after a call. */
static void emit_content(struct tool_reader* r, size_t n) {
	const struct span s = {r->held.data, n};
	if (r->begun || span_spaces(s) < n) {
		text_add(&r->content, s.data, n);
		r->begun = true;
	}
}

/* ---- calls -------------------------------------------------------------------------------- */

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

/* Takes name and arguments over. */
static void add_call(struct tool_reader* r, char* name, char* arguments) {
	r->begun = false;
	const bool counts = !r->one || r->n == 0;
	r->failed |= counts && (!name || !arguments || !grow_by_one(&r->call, (size_t)r->n, sizeof *r->call));
	if (!counts || r->failed) {
		free(name);
		free(arguments);
		return;
	}
	r->call[r->n] = (struct tool_call){.name = name, .arguments = arguments};
	make_id(r, r->call[r->n].id);
	r->n++;
}

/* {"name", "arguments" or "parameters"}. False: it is no call. */
static bool take_object(struct tool_reader* r, struct span object, bool must_be_known, bool only_look) {
	struct error ignored;
	object = trim_span(object);
	if (!object.size || *object.data != '{' || !json_check(object.data, object.size, &ignored))
		return false;
	char* name = string_of(find_member(object, "name"));
	const bool good = name && *name && (!must_be_known || is_tool(r, name));
	if (!good || only_look) {
		free(name);
		return good;
	}
	struct span arguments = find_member(object, "arguments");
	if (!arguments.data)
		arguments = find_member(object, "parameters");
	char* text = arguments.data && *arguments.data == '"' ? string_of(arguments)
	             : arguments.data                         ? strndup(arguments.data, arguments.size)
	                                                      : strdup("{}");
	add_call(r, name, text);
	return true;
}

/* NAME>{…} of a function, or NAME{…}; `end` ends the name. */
static bool take_named(struct tool_reader* r, struct span s, const char* end) {
	struct error ignored;
	const size_t n = span_find(s, end);
	struct span name = trim_span((struct span){s.data, n}), arguments = trim_span(span_after(s, n));
	if (*end != '{' && span_starts(arguments, end))
		arguments = trim_span(span_after(arguments, strlen(end)));
	const size_t id = span_find(name, id_open); /* the model's own, before the arguments */
	name.size = id;
	if (!name.size || memchr(name.data, '"', name.size) || !arguments.size ||
	    !json_check(arguments.data, arguments.size, &ignored))
		return false;
	add_call(r, strndup(name.data, name.size), strndup(arguments.data, arguments.size));
	return true;
}

/* Objects with semicolons or white space between, all of them calls, or none is one. */
static bool take_objects(struct tool_reader* r, struct span s, bool must_be_known) {
	for (int pass = 0; pass < 2; pass++)
		for (struct span left = trim_span(s); left.size;) {
			const size_t n = value_size(left);
			if (!n || !take_object(r, (struct span){left.data, n}, must_be_known, pass == 0))
				return false;
			left = trim_span(span_after(left, n));
			while (left.size && (*left.data == ';' || *left.data == ','))
				left = trim_span(span_after(left, 1));
		}
	return true;
}

/* All after [TOOL_CALLS]. */
static bool take_list(struct tool_reader* r, struct span s) {
	struct error ignored;
	s = trim_span(s);
	if (s.size && *s.data == '[' && json_check(s.data, s.size, &ignored) &&
	    trim_span(span_after(s, 1)).size > 1)
		return take_objects(r, (struct span){s.data + 1, s.size - 2}, false);
	if (s.size && *s.data == '{')
		return take_objects(r, s, false);
	bool any = false;
	while (s.size) { /* NAME[ARGS]{…}, perhaps with [TOOL_CALLS] before the next */
		const size_t from = span_find(s, "{"), n = value_size(span_after(s, from));
		const size_t name_end = span_find((struct span){s.data, from}, arguments_open);
		if (!n || !take_named(r, (struct span){s.data, from + n}, name_end < from ? arguments_open : "{"))
			return any;
		any = true;
		s = trim_span(span_after(s, from + n));
		if (span_starts(s, list_open))
			s = trim_span(span_after(s, strlen(list_open)));
	}
	return any;
}

/* ---- deciding ----------------------------------------------------------------------------- */

/* What was held since the opener is content after all. */
static void give_back(struct tool_reader* r, size_t n) {
	text_put(&r->content, r->opener);
	r->begun = true;
	emit_content(r, n);
}

/* What closes a call that the opener began; NULL: the end of the text. */
static const char* closer_of(const char* opener) {
	return opener == tag_open ? tag_close : opener == function_open ? function_close : NULL;
}

/* With a tag or function that is closed, or ends with the text. */
static void take_closed(struct tool_reader* r, size_t n, size_t closer) {
	const struct span body = {r->held.data, n};
	const bool good = r->opener == tag_open ? take_object(r, body, false, false) : take_named(r, body, ">");
	if (!good)
		give_back(r, n + closer);
	text_drop(&r->held, n + closer);
	r->opener = NULL;
}

/* True when there is more to decide. */
static bool decide_content(struct tool_reader* r) {
	const struct span s = held_text(r);
	const size_t blank = span_spaces(s);
	if (!r->begun && r->n == 0 && blank < s.size && s.data[blank] == '{') {
		r->opener = "";
		return false;
	}
	const size_t first = span_first(s, openers, &r->opener);
	if (r->opener) {
		emit_content(r, first);
		text_drop(&r->held, first + strlen(r->opener));
		return true;
	}
	if (!r->begun && blank == s.size)
		return false;
	const size_t n = s.size - span_undecided(s, openers);
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
		const char* closer = closer_of(r->opener);
		const size_t n = closer ? span_find(held_text(r), closer) : r->held.size;
		more = n < r->held.size;
		if (more)
			take_closed(r, n, strlen(closer));
	}
}

void tool_reader_end(struct tool_reader* r) {
	const size_t n = r->held.size;
	if (!r->opener)
		emit_content(r, n);
	else if (closer_of(r->opener))
		take_closed(r, n, 0);
	else if (!(r->opener == list_open ? take_list(r, held_text(r))
	                                  : take_objects(r, held_text(r), !*r->opener)))
		give_back(r, n);
	text_clear(&r->held);
	r->failed |= r->content.failed || r->held.failed;
}

/* ---- from outside ------------------------------------------------------------------------- */

void tool_reader_open(struct tool_reader* r, const char* tools, bool only_one, uint64_t seed) {
	*r = (struct tool_reader){.tools = tools, .one = only_one, .seed = seed};
}

void tool_reader_close(struct tool_reader* r) {
	for (int i = 0; i < r->n; i++) {
		free(r->call[i].name);
		free(r->call[i].arguments);
	}
	free(r->call);
	text_free(&r->content);
	text_free(&r->held);
}

void tool_reader_add(struct tool_reader* r, const char* text, size_t size) {
	text_add(&r->held, text, size);
	decide_held(r);
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char hermes_call[] = "<tool_call>\n{\"name\":", hermes_begin[] = "<tool_call>\n{\"name\": \"";
/* trigger, some, all, begin, middle, end, between, finish, at_beginning */
static const struct tool_syntax
    hermes = {tag_open,          hermes_call, "", hermes_begin, "\", \"arguments\": ",
              "}\n</tool_call>", "\n",        "", false},
    mistral_list = {list_open, list_open, "[TOOL_CALLS][", "{\"name\": \"", "\", \"arguments\": ", "}", ", ",
                    "]",       false},
    mistral_named = {list_open, list_open, "", list_open, arguments_open, "", "", "", false},
    functionary = {function_open, function_open, "", function_open, ">", function_close, "", "", false},
    llama = {"{", "{\"name\":", "", "{\"name\": \"", "\", \"parameters\": ", "}", "; ", "", true};

const struct tool_syntax* tool_syntax_of(const char* chat_template) {
	if (strstr(chat_template, tag_open))
		return &hermes;
	if (strstr(chat_template, list_open))
		return strstr(chat_template, arguments_open) ? &mistral_named : &mistral_list;
	if (strstr(chat_template, function_open))
		return &functionary;
	return strstr(chat_template, "parameters") ? &llama : NULL;
}

/* Up to the arguments, or without a name up to it; white space that a model's own tokens may begin with is
 * left to them. */
bool tool_call_begin(const char* chat_template, const char* name, struct text* out) {
	const struct tool_syntax* s = tool_syntax_of(chat_template);
	if (s && name)
		text_print(out, "%s%s%s%s", s->all, s->begin, name, s->middle);
	else if (s)
		text_put(out, s->some);
	while (out->size && out->data[out->size - 1] == ' ')
		out->data[--out->size] = '\0';
	return s;
}
