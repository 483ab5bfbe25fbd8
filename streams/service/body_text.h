/* A request's body as the JSON reader takes it: without a byte order mark, and without characters that no
 * text here can hold. */
#pragma once

#include "streams/text.h"

void body_text_mend(struct text* body);
