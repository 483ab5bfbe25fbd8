/* Characters by a Unicode property, as PCRE2 knows them: \p{L}, \p{Script=Greek}, \p{Emoji}. */
#pragma once

#include "core/grammar/reader.h"

/* Adds the characters that have the property, or that have it not, to the reader's ranges. `name` is what
 * stands between the braces, in ECMA-262's spelling. False: there is no such property. */
bool property_ranges(struct reader*, const char* name, bool negated);
