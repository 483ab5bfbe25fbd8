/* The sentence a failed call leaves for its caller. */
#include "kernels/backend.h"

#include <stdarg.h>
#include <stdio.h>

bool error_set(struct error* error, const char* format, ...) {
	if (error) {
		va_list arguments;
		va_start(arguments, format);
		vsnprintf(error->message, sizeof error->message, format, arguments);
		va_end(arguments);
	}
	return false;
}
