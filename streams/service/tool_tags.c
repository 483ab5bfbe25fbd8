/* See tool_tags.h. */
#include "streams/service/tool_tags.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"
#include "streams/json_text.h"

unsigned tag_types(struct span schema, struct span parameter) {
	cJSON* const parsed = schema.data ? cJSON_ParseWithLength(schema.data, schema.size) : NULL;
	char* const name = strndup(parameter.data, parameter.size);
	const cJSON* const of = name ? json_field(json_field(parsed, "properties"), name) : NULL;
	const unsigned types = of ? json_tag_types(parsed, of) : TAG_ANY;
	free(name);
	cJSON_Delete(parsed);
	return types;
}

void tag_escape(struct text* out, struct span s) {
	for (size_t i = 0, from = 0; i <= s.size; i++) {
		const unsigned char c = i < s.size ? (unsigned char)s.data[i] : 0;
		if (i < s.size && c >= 0x20 && c != '"' && c != '\\')
			continue;
		text_add(out, s.data + from, i - from);
		from = i + 1;
		if (i == s.size)
			break;
		if (c == '\n')
			text_put(out, "\\n");
		else if (c < 0x20)
			text_print(out, "\\u%04x", c);
		else
			text_print(out, "\\%c", c);
	}
}

void tag_value(struct text* out, struct span s, unsigned types) {
	static const char* const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
	const struct span whole = s;
	s = span_after(s, span_spaces(s));
	s.size = span_trimmed(s);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (s.size == strlen(words[i][0]) && memcmp(s.data, words[i][0], s.size) == 0)
			s = (struct span){words[i][1], strlen(words[i][1])};
	struct error ignored;
	cJSON* const value =
	    s.size && json_check(s.data, s.size, &ignored) ? cJSON_ParseWithLength(s.data, s.size) : NULL;
	/* a value of a wrong type is a text if it may be one */
	if (value && ((json_tag_type(value) & types) || !(types & TAG_STRING)))
		text_add(out, s.data, s.size);
	else {
		text_put(out, "\"");
		tag_escape(out, whole);
		text_put(out, "\"");
	}
	cJSON_Delete(value);
}
