/* Values that are written as elements within elements, as MiniMax M3 does:
 * MARK<a>MARK<item>1MARK</item>MARK</a> stands for {"a": [1]}. */
#pragma once

#include "streams/service/tool_tags.h"

/* Appends the value of a parameter as JSON. schema: of the function's parameters; mark: before each tag. */
void elements_value(struct text* out, struct span value, const char* mark, struct span schema,
                    struct span parameter);
