/* Regular expressions as tokenizers write them (Oniguruma's and Rust's dialect), run by PCRE2.
 *
 * \s, \S and \w are rewritten to the sets those dialects mean, which are not quite PCRE2's. Matching is
 * bounded: a text on which an expression gives up counts as one without further matches. */
#ifndef SWIFTLET_CORE_TEXT_EXPRESSION_H
#define SWIFTLET_CORE_TEXT_EXPRESSION_H

#include "kernels/backend.h"

struct expression;

/* Work space of matching, one a thread. */
struct matcher {
	struct pcre2_real_match_data_8* data;
	struct pcre2_real_match_context_8* context;
	struct pcre2_real_jit_stack_8* stack;
};

/* regex false: the pattern stands for itself. NULL with the error set: it does not compile, or it uses what
 * is not supported. */
struct expression* expression_compile(const char* pattern, bool regex, struct error*);
void expression_free(struct expression*);

bool matcher_start(struct matcher*);
void matcher_end(struct matcher*);
/* The first match of at least one character at or after `from`. text must be well-formed UTF-8. */
bool expression_next(const struct expression*, struct matcher*, const char* text, size_t size, size_t from,
                     size_t* start, size_t* end);

#endif
