/* OpenAI's legacy functions: `functions` and `function_call` of a chat request, which tools replaced. */
#pragma once

#include "streams/service/api_json.h"

/* Rewrites a body's `functions` and `function_call` as `tools` and `tool_choice`. 1: rewritten, and the
 * answer uses function_call; 0: the body has none; -1 with the error set. */
int legacy_functions_rewrite(cJSON* body, struct api_error*);
