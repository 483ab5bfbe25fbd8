/* See span.h. */
#include "streams/service/span.h"

#include <ctype.h>
#include <string.h>

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

struct span span_of(const struct text* t) {
	return (struct span){t->data ? t->data : "", t->size};
}

struct span span_after(struct span s, size_t n) {
	return (struct span){s.data + n, s.size - n};
}

struct span span_trim(struct span s) {
	s = span_after(s, span_spaces(s));
	return (struct span){s.data, span_trimmed(s)};
}

bool span_may_start(struct span s, const char* with) {
	return s.size < strlen(with) && memcmp(s.data, with, s.size) == 0;
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
	enum { LONGEST = 32 };
	for (size_t n = s.size < LONGEST ? s.size : LONGEST; n > 0; n--)
		for (int i = 0; marks[i]; i++)
			if (n < strlen(marks[i]) && memcmp(s.data + s.size - n, marks[i], n) == 0)
				return n;
	return 0;
}
