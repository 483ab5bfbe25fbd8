/* Sets an error about a file: a sentence that begins with the file's name. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include "kernels/backend.h"

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
/* Returns false, as error_set does. */
static inline bool
error_in(struct error* error, const char* file, const char* format, ...) {
	char text[sizeof error->message];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return error_set(error, "%s: %s", file, text);
}
