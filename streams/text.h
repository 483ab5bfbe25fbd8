/* A growing text, in which answers are put together. It remembers a failed allocation, so that a writer
 * checks once, at the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct text {
	char* data; /* NUL-terminated once anything was added */
	size_t size, capacity;
	bool failed;
};

void text_add(struct text*, const void* data, size_t size);
void text_put(struct text*, const char* string);
void text_print(struct text*, const char* format, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string of any bytes, quotes included; what is not UTF-8 becomes U+FFFD. */
void text_quote(struct text*, const char* data, size_t size);
/* A JSON number with six digits, null where it is not finite. */
void text_number(struct text*, double value);
/* A JSON list. */
void text_integers(struct text*, const int* value, int n);
/* Appends JSON by a format in which ' stands for ": %s a text as it is; %q a string, null for NULL, %Q one of
 * so many bytes (const char*, size_t); %d an int, %l an int64_t, %g a double as text_number writes it, %r
 * with all its digits, %b a bool. */
void text_json(struct text*, const char* format, ...);
/* The text as a string; "" before anything was added. */
static inline const char* text_or_empty(const struct text* t) { return t->data ? t->data : ""; }
void text_drop(struct text*, size_t n); /* of its beginning */
void text_clear(struct text*);          /* keeps the memory */
void text_free(struct text*);
/* Returns the bytes, malloc'd, which the caller frees; NULL after a failure. The text is empty afterwards. */
char* text_take(struct text*);
