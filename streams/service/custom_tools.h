/* Tools of a chat request that are not functions. A custom tool takes a text; the model knows it as a
 * function of {"input": TEXT}. Tools that the vendor hosts are left out. */
#pragma once

#include "streams/service/generation.h"

/* Rewrites a body's `tools`, `tool_choice` and earlier calls. names: of the custom tools, with blanks
 * between. 1: rewritten; 0: there is nothing to rewrite; -1 with the error set. */
int custom_tools_rewrite(cJSON* body, struct text* names, struct text* ignored, struct api_error*);
bool custom_tools_have(const struct generation*, const struct tool_call*);
/* The text that a call of such a tool passes; malloc'd. */
char* custom_tools_input(const struct tool_call*);
