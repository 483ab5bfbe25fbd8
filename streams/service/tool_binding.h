/* Tools that are strict: the answer's grammar, in which their calls' arguments are bound to their schemas. */
#ifndef SWIFTLET_STREAMS_SERVICE_TOOL_BINDING_H
#define SWIFTLET_STREAMS_SERVICE_TOOL_BINDING_H

#include "core/text/tokenizer.h"
#include "streams/service/openai.h"

/* NULL without an error: no tool of the request is strict. begun: what the answer was made to begin with.
 * False with a 400 where the schemas, or how the model writes its calls, cannot be kept. */
bool tools_bind(const struct api_request*, const char* chat_template, const struct tokenizer*,
                const char* begun, struct grammar** out, struct api_error*);

#endif
