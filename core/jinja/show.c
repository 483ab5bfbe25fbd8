/* How values print: Python's str() and repr(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/jinja/value.h"

/* The fewest digits that read back as the same number, as Python writes them. */
int float_text(double d, char out[40]) {
	if (!isfinite(d))
		return snprintf(out, 40, "%s", isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
	char digits[40];
	for (int precision = 0; precision < 17; precision++) {
		snprintf(digits, sizeof digits, "%.*e", precision, d);
		const double back = strtod(digits, NULL);
		if (!(back < d) && !(back > d))
			break;
	}
	const char* const mark = strchr(digits, 'e');
	const int exponent = atoi(mark + 1);
	const int n = (int)(mark - digits) - (digits[0] == '-') - (strchr(digits, '.') ? 1 : 0);
	if (exponent < -4 || exponent >= 16)
		return snprintf(out, 40, "%.*se%c%02d", (int)(mark - digits), digits, exponent < 0 ? '-' : '+',
		                abs(exponent));
	const int decimals = n - 1 - exponent;
	return snprintf(out, 40, "%.*f", decimals < 1 ? 1 : decimals, d);
}

/* What repr() writes as it is. */
static bool prints(uint32_t code) {
	if (code < 0x7F)
		return code >= 0x20;
	if (code > 0x10FFFF)
		return false;
	switch (utf8proc_category((utf8proc_int32_t)code)) {
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_CO:
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP:
	case UTF8PROC_CATEGORY_ZS:
		return false;
	default:
		return true;
	}
}

static void write_escape(struct builder* b, uint32_t code, char quote, bool foreign) {
	char text[16];
	if (code == '\n' || code == '\r' || code == '\t')
		snprintf(text, sizeof text, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
	else if (code == '\\' || code == (uint32_t)quote)
		snprintf(text, sizeof text, "\\%c", (char)code);
	else
		snprintf(text, sizeof text,
		         code < 0x100     ? "\\x%02x"
		         : code < 0x10000 ? "\\u%04x"
		                          : "\\U%08x",
		         (unsigned)(code > 0x10FFFF ? code & 0xFF : code));
	builder_add(b, text, strlen(text), foreign);
}

static void write_quoted(struct builder* b, const struct string* s) {
	const bool doubled = s->size && memchr(s->data, '\'', s->size) && !memchr(s->data, '"', s->size);
	const char quote = doubled ? '"' : '\'';
	builder_add(b, &quote, 1, false);
	uint32_t code;
	for (size_t at = 0, length; at < s->size; at += length) {
		length = string_character(s, at, &code);
		if (prints(code) && code != '\\' && code != (uint32_t)quote)
			builder_part(b, s, at, at + length);
		else
			write_escape(b, code, quote, string_foreign_at(s, at));
	}
	builder_add(b, &quote, 1, false);
}

static void write_items(struct builder* b, const struct list* list, const char* open, const char* close) {
	builder_words(b, open);
	for (int i = 0; i < list->n; i++) {
		builder_words(b, i ? ", " : "");
		value_write_repr(b, list->item[i]);
	}
	builder_words(b, close);
}

static void write_dict(struct builder* b, const struct dict* d) {
	builder_words(b, "{");
	for (int i = 0; i < d->n; i++) {
		builder_words(b, i ? ", " : "");
		value_write_repr(b, d->entry[i].key);
		builder_words(b, ": ");
		value_write_repr(b, d->entry[i].value);
	}
	builder_words(b, "}");
}

static void write_range(struct builder* b, const struct list* list) {
	char text[80];
	const int64_t first = list->n ? list->item[0].integer : 0;
	const int64_t step = list->n > 1 ? list->item[1].integer - first : 1;
	const int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, first, first + step * list->n);
	snprintf(text + n, sizeof text - (size_t)n, step == 1 ? ")" : ", %" PRId64 ")", step);
	builder_words(b, text);
}

static void write_list(struct builder* b, struct value v) {
	if (v.kind == LIST) {
		write_items(b, v.list, "[", "]");
	} else if (v.kind == TUPLE) {
		write_items(b, v.list, "(", v.list->n == 1 ? ",)" : ")");
	} else if (v.kind == RANGE) {
		write_range(b, v.list);
	} else {
		builder_words(b, v.list->name);
		write_items(b, v.list, "([", "])");
	}
}

void value_write_repr(struct builder* b, struct value v) {
	char text[40];
	machine_enter(b->machine);
	if (v.kind == UNDEFINED || v.kind == NONE)
		builder_words(b, v.kind == NONE ? "None" : "Undefined");
	else if (v.kind == BOOLEAN)
		builder_words(b, v.boolean ? "True" : "False");
	else if (value_is_number(v)) {
		if (v.kind == FLOAT)
			float_text(v.number, text);
		else
			snprintf(text, sizeof text, "%" PRId64, v.integer);
		builder_words(b, text);
	} else if (v.kind == STRING) {
		builder_words(b, v.string->markup ? "Markup(" : "");
		write_quoted(b, v.string);
		builder_words(b, v.string->markup ? ")" : "");
	} else if (v.kind >= LIST && v.kind <= VIEW)
		write_list(b, v);
	else if (v.kind == DICT || v.kind == NAMESPACE) {
		builder_words(b, v.kind == NAMESPACE ? "<Namespace " : "");
		write_dict(b, v.dict);
		builder_words(b, v.kind == NAMESPACE ? ">" : "");
	} else /* Python would write an address */
		machine_fail(b->machine, "a value of type '%s' has no text", value_type(v));
	machine_leave(b->machine);
}

void value_write(struct builder* b, struct value v) {
	if (v.kind == STRING)
		builder_string(b, v.string);
	else if (v.kind != UNDEFINED)
		value_write_repr(b, v);
}

const struct string* value_show(struct machine* m, struct value v) {
	if (v.kind == STRING)
		return v.string;
	struct builder b = {.machine = m};
	value_write(&b, v);
	return builder_end(&b);
}
