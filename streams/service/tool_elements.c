/* See tool_elements.h. The schema distinguishes lists from objects, and strings from other values. */
#include "streams/service/tool_elements.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"

enum { MAX_DEPTH = 32 };

struct elements {
	const char* mark;
	const cJSON* root; /* the schema */
	struct text* out;
};

struct element {
	struct span name, inside;
};

static size_t find_from(struct span s, size_t at, const char* what) {
	return at + span_find(span_after(s, at), what);
}

/* The element that the text begins with. *size: of all of it. False: it begins with none, or has no end. */
static bool read_element(const struct elements* e, struct span s, struct element* one, size_t* size) {
	const size_t mark = strlen(e->mark);
	if (!span_starts(s, e->mark) || s.size < mark + 2 || s.data[mark] != '<' || s.data[mark + 1] == '/')
		return false;
	const struct span tag = span_after(s, mark + 1);
	one->name = (struct span){tag.data, span_find(tag, ">")};
	if (one->name.size == tag.size)
		return false;
	struct text open = {0}, close = {0};
	text_print(&open, "%s<%.*s>", e->mark, (int)one->name.size, one->name.data);
	text_print(&close, "%s</%.*s>", e->mark, (int)one->name.size, one->name.data);
	const bool failed = open.failed || close.failed;
	size_t end = failed ? s.size : find_from(s, open.size, close.data),
	       inner = failed ? s.size : find_from(s, open.size, open.data);
	for (int depth = 1; end < s.size;) { /* elements of the same name within */
		const bool opens = inner < end;
		depth += opens ? 1 : -1;
		if (depth == 0)
			break;
		if (opens)
			inner = find_from(s, inner + open.size, open.data);
		else
			end = find_from(s, end + close.size, close.data);
	}
	one->inside = (struct span){s.data + open.size, end - open.size};
	*size = end + close.size;
	text_free(&open);
	text_free(&close);
	return end < s.size;
}

static const cJSON* resolve_schema(const struct elements* e, const cJSON* schema) {
	const char* const to = cJSON_GetStringValue(json_field(schema, "$ref"));
	const cJSON* const target = to ? json_tag_resolve(e->root, json_field(schema, "$ref")) : NULL;
	return target ? target : schema;
}

static void put_value(const struct elements*, struct span, const cJSON* schema, int depth);

/* Children as a list or an object. False: the text is not one of elements. */
static bool put_children(const struct elements* e, struct span s, const cJSON* schema, bool list, int depth) {
	const size_t before = e->out->size;
	struct element one;
	size_t size;
	text_put(e->out, list ? "[" : "{");
	for (bool more = false; s.size > 0; more = true) {
		if (!read_element(e, s, &one, &size)) {
			e->out->size = before;
			return false;
		}
		char* const name = strndup(one.name.data, one.name.size);
		const cJSON* const own =
		    name && !list ? json_field(json_field(schema, "properties"), name) : json_field(schema, "items");
		free(name);
		text_put(e->out, more ? ", " : "");
		if (!list) {
			text_quote(e->out, one.name.data, one.name.size);
			text_put(e->out, ": ");
		}
		put_value(e, one.inside, resolve_schema(e, own), depth + 1);
		s = span_after(s, size);
		s = span_after(s, span_spaces(s));
	}
	text_put(e->out, list ? "]" : "}");
	return true;
}

static void put_value(const struct elements* e, struct span s, const cJSON* schema, int depth) {
	const unsigned types = schema ? json_tag_types(e->root, schema) : TAG_ANY;
	const struct span bare = span_trim(s);
	struct element one;
	size_t size;
	const bool nested = depth < MAX_DEPTH && read_element(e, bare, &one, &size),
	           items = nested && one.name.size == 4 && memcmp(one.name.data, "item", 4) == 0,
	           list = types == TAG_LIST || (items && types & TAG_LIST && types != TAG_OBJECT);
	if (bare.size == 0 && (types == TAG_LIST || types == TAG_OBJECT))
		text_put(e->out, types == TAG_LIST ? "[]" : "{}");
	else if (types == TAG_STRING) {
		text_put(e->out, "\"");
		tag_escape(e->out, s);
		text_put(e->out, "\"");
	} else if (!nested || !put_children(e, bare, schema, list, depth))
		tag_value(e->out, s, types);
}

void elements_value(struct text* out, struct span value, const char* mark, struct span schema,
                    struct span parameter) {
	cJSON* const parsed = schema.data ? cJSON_ParseWithLength(schema.data, schema.size) : NULL;
	char* const name = strndup(parameter.data, parameter.size);
	const struct elements e = {.mark = mark, .root = parsed, .out = out};
	put_value(&e, value, resolve_schema(&e, name ? json_field(json_field(parsed, "properties"), name) : NULL),
	          0);
	free(name);
	cJSON_Delete(parsed);
}
