/* Log lines of a running service, on standard error. */
#pragma once

/* Writes one line: at most 4,094 bytes of it, and a newline. A line that standard error cannot take at once
 * is left out: a pipe that nobody reads, or a terminal that is halted, would otherwise stop the thread, and
 * every request that waits for it. Any thread may call this. */
void log_line(const char* format, ...) __attribute__((format(printf, 1, 2)));
