/* The pipe's buffer takes 4,096 bytes whole once poll() reports it writable, and the stream's own lock keeps
 * other threads from filling it in between. */
#include "streams/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void log_line(const char* format, ...) {
	char line[4096];
	struct pollfd p = {.fd = fileno(stderr), .events = POLLOUT};
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof line - 1, format, arguments);
	va_end(arguments);
	strcat(line, "\n");
	flockfile(stderr);
	if (poll(&p, 1, 0) > 0 && (p.revents & POLLOUT))
		fputs(line, stderr);
	funlockfile(stderr);
}
