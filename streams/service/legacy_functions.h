/* OpenAI's functions as they were before tools: `functions` and `function_call` of a chat request. */
#ifndef SWIFTLET_STREAMS_SERVICE_LEGACY_FUNCTIONS_H
#define SWIFTLET_STREAMS_SERVICE_LEGACY_FUNCTIONS_H

#include "streams/service/api_json.h"

/* Rewrites a body's `functions` and `function_call` as `tools` and `tool_choice`. 1: it did, and the answer
 * speaks of function_call; 0: there are none; -1: the error is set. */
int legacy_functions_rewrite(cJSON* body, struct api_error*);

#endif
