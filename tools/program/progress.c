/* The line of progress. */
#include "tools/program/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

bool progress_shows(void) { return isatty(STDERR_FILENO) != 0; }

void progress_show(double share, const char* format, ...) {
	enum { WIDTH = 24 };
	if (!progress_shows())
		return;
	va_list arguments;
	va_start(arguments, format);
	fputs("\r\033[K", stderr);
	if (!isnan(share)) {
		fputc('[', stderr);
		for (int i = 0; i < WIDTH; i++)
			fputc(i < (int)(share * WIDTH) ? '#' : '.', stderr);
		fprintf(stderr, "] %3.0f %% ", 100 * share);
	}
	vfprintf(stderr, format, arguments);
	fflush(stderr);
	va_end(arguments);
}

void progress_end(void) {
	if (progress_shows())
		fputs("\r\033[K", stderr);
}
