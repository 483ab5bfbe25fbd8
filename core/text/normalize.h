/* What happens to a text before it is cut into words: composition, replacing, the prefix space.
 *
 * A normalizer is a list of steps, each from one buffer to the next. Bytes that are not UTF-8 pass
 * through every step as they are. */
#ifndef SWIFTLET_CORE_TEXT_NORMALIZE_H
#define SWIFTLET_CORE_TEXT_NORMALIZE_H

#include "core/text/expression.h"
#include "core/text/vocabulary.h"

enum normalize_kind {
	NORMALIZE_NFC,
	NORMALIZE_NFD,
	NORMALIZE_NFKC,
	NORMALIZE_NFKD,
	NORMALIZE_LOWERCASE,
	NORMALIZE_STRIP_ACCENTS, /* drops combining marks */
	NORMALIZE_STRIP,         /* white space at the ends */
	NORMALIZE_SQUEEZE,       /* runs of spaces become one, outer ones go */
	NORMALIZE_REPLACE,       /* pattern or expression by content */
	NORMALIZE_PREPEND        /* content before a text that is not empty */
};

struct normalize_step {
	enum normalize_kind kind;
	char *pattern, *content; /* owned */
	size_t pattern_size, content_size;
	struct expression* expression; /* REPLACE by expression instead of pattern */
	bool left, right;              /* STRIP */
	bool first_only;               /* PREPEND: only where the whole text begins */
	bool unless_there;             /* PREPEND: not when the text begins with it already */
};

enum { MAX_NORMALIZE_STEPS = 32 };

struct normalizer {
	struct normalize_step step[MAX_NORMALIZE_STEPS];
	int n;
};

void normalizer_free(struct normalizer*);
/* A new step at the end, zeroed but for its kind; NULL with the error set when there are too many. */
struct normalize_step* normalizer_add(struct normalizer*, enum normalize_kind, struct error*);
/* The same for REPLACE and PREPEND with copies of their strings (pattern may be NULL). */
struct normalize_step* normalizer_add_text(struct normalizer*, enum normalize_kind, const char* pattern,
                                           size_t pattern_size, const char* content, size_t content_size,
                                           struct error*);
/* Normalizes *text, with *work as space; the two may change places. False: no memory. */
bool normalizer_run(const struct normalizer*, struct matcher*, bool first, struct buffer* text,
                    struct buffer* work);

#endif
