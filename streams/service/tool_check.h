/* Checks arguments of strict tools that were read from free text. */
#pragma once

#include "core/grammar/grammar.h"

struct tool_check {
	char *name, *schema; /* malloc'd */
	struct grammar* grammar;
};
struct tool_checks {
	struct tool_check* check; /* (n) */
	int n;
};

/* Copies the texts, and takes the grammar in any case. False on no memory. */
bool tool_checks_add(struct tool_checks*, const char* name, const char* schema, struct grammar*);
void tool_checks_free(struct tool_checks*);
/* NULL: the tool is not strict. */
const struct tool_check* tool_check_of(const struct tool_checks*, const char* name);
/* Whether the arguments keep the schema; their members may come in any order. */
bool tool_check_fits(const struct tool_check*, const char* arguments, size_t size);
