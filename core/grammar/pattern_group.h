/* Reads the parts of a regular expression that begin with a parenthesis: groups with and without a name,
 * look-ahead and look-behind, flags, atomic groups. Also reads back-references. */
#pragma once

#include "core/grammar/reader.h"

/* After '(': the node. */
int pattern_group(struct reader*, const struct syntax*);
/* Reads \1, \k<name> or (?P=name); NOWHERE: none of them comes next. */
int pattern_back(struct reader*);
/* Whether the expression refers to one of its groups. */
bool pattern_refers(const char* expression, size_t size);
/* A repeat that takes as much as it can and gives nothing back. It fails where the part's texts may go on
 * from one another: what it takes then depends on how the engine tries them. */
int pattern_possessive(struct reader*, int node, int least, int most);
