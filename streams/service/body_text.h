/* A request's body as the JSON reader takes it: without a byte order mark, and without characters that no
 * text here can hold. */
#ifndef SWIFTLET_STREAMS_SERVICE_BODY_TEXT_H
#define SWIFTLET_STREAMS_SERVICE_BODY_TEXT_H

#include "streams/text.h"

void body_text_mend(struct text* body);

#endif
