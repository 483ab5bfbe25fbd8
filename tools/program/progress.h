/* The progress of a long command: one line on standard error that is written again, if that is a terminal. */
#pragma once

#include <stdbool.h>

bool progress_shows(void);
/* share: the share done, in [0, 1], drawn as a bar before the text; NaN: no bar. */
void progress_show(double share, const char* format, ...) __attribute__((format(printf, 2, 3)));
void progress_end(void);
