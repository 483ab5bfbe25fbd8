/* Bytes that grow. */
#include "streams/text.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"

static bool reserve_bytes(struct text* t, size_t more) {
	t->failed |= more > SIZE_MAX / 4 - t->size || !grow_to(&t->data, &t->capacity, t->size + more + 1, 1);
	return !t->failed;
}

void text_add(struct text* t, const void* data, size_t size) {
	if (!reserve_bytes(t, size))
		return;
	if (size)
		memcpy(t->data + t->size, data, size);
	t->size += size;
	t->data[t->size] = '\0';
}

void text_put(struct text* t, const char* string) { text_add(t, string, strlen(string)); }

void text_print(struct text* t, const char* format, ...) {
	va_list arguments, again;
	va_start(arguments, format);
	va_copy(again, arguments);
	const int n = vsnprintf(NULL, 0, format, arguments);
	if (n >= 0 && reserve_bytes(t, (size_t)n)) {
		vsnprintf(t->data + t->size, (size_t)n + 1, format, again);
		t->size += (size_t)n;
	}
	va_end(again);
	va_end(arguments);
}

/* Writes one character of `step` bytes (0: not UTF-8) as JSON escapes it; at most 6 bytes. */
static size_t quote_one(char* out, const char* at, size_t step) {
	static const char hex[] = "0123456789abcdef";
	if (step == 0) {
		memcpy(out, "\xef\xbf\xbd", 3);
		return 3;
	}
	const unsigned char b = (unsigned char)at[0];
	const char* short_form = "\"\\\n\r\t";
	const char* letter = "\"\\nrt";
	const char* found = b ? strchr(short_form, b) : NULL;
	if (found) {
		out[0] = '\\';
		out[1] = letter[found - short_form];
		return 2;
	}
	if (b < 0x20 || b == 0x7f) {
		const char escape[] = {'\\', 'u', '0', '0', hex[b >> 4], hex[b & 15]};
		memcpy(out, escape, sizeof escape);
		return sizeof escape;
	}
	memcpy(out, at, step);
	return step;
}

void text_quote(struct text* t, const char* data, size_t size) {
	text_put(t, "\"");
	for (size_t at = 0; at < size;) {
		const size_t step = utf8_character(data + at, size - at, NULL);
		char quoted[8];
		text_add(t, quoted, quote_one(quoted, data + at, step));
		at += step ? step : utf8_malformed(data + at, size - at);
	}
	text_put(t, "\"");
}

void text_number(struct text* t, double value) {
	if (isfinite(value))
		text_print(t, "%.6g", value);
	else
		text_put(t, "null");
}

void text_integers(struct text* t, const int* value, int n) {
	text_put(t, "[");
	for (int i = 0; i < n; i++)
		text_print(t, i ? ",%d" : "%d", value[i]);
	text_put(t, "]");
}

/* Enough digits to read back the same number but for its last bit, as cJSON writes numbers. */
static void put_real(struct text* t, double value) {
	char digits[32];
	snprintf(digits, sizeof digits, "%.15g", value);
	if (fabs(strtod(digits, NULL) - value) > DBL_EPSILON * fabs(value))
		snprintf(digits, sizeof digits, "%.17g", value);
	text_put(t, isfinite(value) ? digits : "null");
}

static void put_value(struct text* t, char kind, va_list* arguments) {
	const char* text;
	switch (kind) {
	case 's':
		text_put(t, va_arg(*arguments, const char*));
		break;
	case 'q':
		text = va_arg(*arguments, const char*);
		if (text)
			text_quote(t, text, strlen(text));
		else
			text_put(t, "null");
		break;
	case 'Q':
		text = va_arg(*arguments, const char*);
		text_quote(t, text ? text : "", va_arg(*arguments, size_t));
		break;
	case 'd':
		text_print(t, "%d", va_arg(*arguments, int));
		break;
	case 'l':
		text_print(t, "%" PRId64, va_arg(*arguments, int64_t));
		break;
	case 'r':
		put_real(t, va_arg(*arguments, double));
		break;
	case 'b':
		text_put(t, va_arg(*arguments, int) ? "true" : "false");
		break;
	default:
		text_number(t, va_arg(*arguments, double));
	}
}

void text_json(struct text* t, const char* format, ...) {
	va_list arguments;
	va_start(arguments, format);
	for (const char* at = format; *at; at++) {
		const size_t n = strcspn(at, "'%");
		text_add(t, at, n);
		at += n;
		if (!*at)
			break;
		if (*at == '%')
			put_value(t, *++at, &arguments);
		else
			text_put(t, "\"");
	}
	va_end(arguments);
}

void text_drop(struct text* t, size_t n) {
	if (n)
		memmove(t->data, t->data + n, t->size - n);
	t->size -= n;
}

void text_clear(struct text* t) {
	t->size = 0;
	if (t->data)
		t->data[0] = '\0';
}

void text_free(struct text* t) {
	free(t->data);
	*t = (struct text){0};
}

char* text_take(struct text* t) {
	text_put(t, "");
	if (t->failed)
		text_free(t);
	char* data = t->data;
	*t = (struct text){0};
	return data;
}
