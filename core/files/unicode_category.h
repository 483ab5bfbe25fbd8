/* Unicode's general categories by their long names (PropertyValueAliases.txt), which PCRE2 does not know. */
#pragma once

/* The short name of a category, as in "Lu" for "Uppercase_Letter". Case, spaces, - and _ do not count (UAX
 * #44, UAX44-LM3). NULL: the name is none of a category's long names. */
const char* unicode_category_code(const char* name);
