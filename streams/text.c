/* Bytes that grow. */
#include "streams/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"

static bool reserve(struct text* t, size_t more) {
	if (t->failed || more > SIZE_MAX / 4 - t->size) {
		t->failed = true;
		return false;
	}
	if (t->size + more < t->capacity)
		return true;
	const size_t capacity = 2 * (t->size + more) + 64;
	char* grown = realloc(t->data, capacity);
	if (!grown) {
		t->failed = true;
		return false;
	}
	t->data = grown;
	t->capacity = capacity;
	return true;
}

void text_add(struct text* t, const void* data, size_t size) {
	if (!reserve(t, size))
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
	if (n >= 0 && reserve(t, (size_t)n)) {
		vsnprintf(t->data + t->size, (size_t)n + 1, format, again);
		t->size += (size_t)n;
	}
	va_end(again);
	va_end(arguments);
}

void text_quote(struct text* t, const char* data, size_t size) {
	char* quoted = json_quote(data, size);
	if (quoted)
		text_put(t, quoted);
	else
		t->failed = true;
	free(quoted);
}

void text_number(struct text* t, double value) {
	if (isfinite(value))
		text_print(t, "%.6g", value);
	else
		text_put(t, "null");
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
