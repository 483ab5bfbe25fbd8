/* Request bodies that come compressed: Content-Encoding gzip or deflate. */
#ifndef SWIFTLET_STREAMS_SERVICE_BODY_CODING_H
#define SWIFTLET_STREAMS_SERVICE_BODY_CODING_H

#include "streams/service/api_json.h"
#include "streams/text.h"

/* Whether a coding is read here; case does not count. */
bool body_coding_known(const char* coding);
/* Replaces a compressed body by what it holds, at most `most` bytes. False with the error set: it is damaged,
 * cut short or too large, and the body is empty then. */
bool body_decompress(struct text* body, size_t most, struct api_error*);

#endif
