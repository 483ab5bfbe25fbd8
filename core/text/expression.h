/* Regular expressions of tokenizers, in Oniguruma's dialect, run by PCRE2.
 *
 * They are rewritten where PCRE2 reads the same characters differently. Matching is bounded: if an expression
 * exceeds the bound on a text, the text counts as having no further matches. */
#pragma once

#include "core/text/vocabulary.h"

struct expression;

/* Work space of matching, one a thread. */
struct matcher {
	struct pcre2_real_match_data_8* data;
	struct pcre2_real_match_context_8* context;
	struct pcre2_real_jit_stack_8* stack;
};

/* regex false: the pattern stands for itself. NULL with the error set when it does not compile or uses
 * something that is not supported. */
struct expression* expression_compile(const char* pattern, bool regex, struct error*);
void expression_free(struct expression*);

bool matcher_start(struct matcher*);
void matcher_end(struct matcher*);
/* The next match, *start and *end being the last one's or both NOWHERE. It may be empty, but not where the
 * last one ends. text must be well-formed UTF-8. */
#define NOWHERE SIZE_MAX
bool expression_next(const struct expression*, struct matcher*, const char* text, size_t size, size_t* start,
                     size_t* end);

/* expression_dialect.c: the pattern in PCRE2's dialect, to be compiled with UTF, UCP and MULTILINE.
 * pattern[size] is 0. False with the error set when it uses something that is not supported. */
bool expression_translate(const char* pattern, size_t size, struct buffer* out, struct error*);
/* Sets an error about a pattern, which need not be NUL-terminated. Returns false. */
bool expression_refuse(const char* pattern, size_t size, const char* why, struct error*);
