/* Unicode's general categories by their long names (PropertyValueAliases.txt), which PCRE2 does not know. */
#ifndef SWIFTLET_CORE_FILES_UNICODE_CATEGORY_H
#define SWIFTLET_CORE_FILES_UNICODE_CATEGORY_H

/* The short name of a category, as in "Lu" for "Uppercase_Letter". Case, spaces, - and _ do not count (UAX
 * #44, UAX44-LM3). NULL: the name is none of a category's long names. */
const char* unicode_category_code(const char* name);

#endif
