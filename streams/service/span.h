/* Parts of a text that comes piece by piece, and marks in them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "streams/text.h"

struct span {
	const char* data;
	size_t size;
};
struct span span_of(const struct text*);       /* all of it; its data is never NULL */
struct span span_after(struct span, size_t n); /* without its first n bytes */
bool span_starts(struct span, const char* with);
bool span_may_start(struct span, const char* with); /* it is shorter, and so far the same */
struct span span_trim(struct span);                 /* without the white space around it */
size_t span_spaces(struct span);                    /* at its beginning */
size_t span_trimmed(struct span);                   /* bytes without the white space at its end */
/* The position of the text; s.size when there is none. */
size_t span_find(struct span s, const char* what);
/* The position of the first mark of a NULL-ended list, and the mark; s.size and NULL if there is none. */
size_t span_first(struct span s, const char* const* marks, const char** which);
/* Length of the text's end that may begin one of the marks, and so is undecided. */
size_t span_undecided(struct span, const char* const* marks);
