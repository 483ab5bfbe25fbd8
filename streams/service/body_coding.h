/* Compressed request bodies: Content-Encoding gzip or deflate. */
#pragma once

#include "streams/service/api_json.h"
#include "streams/text.h"

/* True when this coding is supported; case does not count. */
bool body_coding_known(const char* coding);
/* Replaces a compressed body by its content, at most `most` bytes. False with the error set when it is
 * damaged, cut short or too large; the body is empty then. */
bool body_decompress(struct text* body, const char* coding, size_t most, struct api_error*);
