/* Added tokens are matched as whole strings before any merging: special tokens, and those that a user added.
 *
 * A trie over bytes finds the longest token at a place. The flags are Hugging Face's: `lstrip` includes the
 * white space before the token, `rstrip` that after it, and `single_word` requires that no letter or digit
 * stands beside it. */
#pragma once

#include "core/files/utf8.h"
#include "kernels/backend.h"

struct added_token {
	int32_t id;
	bool special; /* not matched in plain text (TOKENIZE_NO_SPECIAL) */
	bool lstrip, rstrip, single_word;
};

struct added_node {
	int32_t child, sibling; /* -1: none */
	int32_t token;          /* index in token, -1: none ends here */
	uint8_t byte;
};

struct added_tokens {
	struct added_token* token;
	int n;
	struct added_node* node;
	int n_nodes;
	int32_t root[256];
	bool has_special;
};

/* Stretches of a text, ascending, in which special tokens are plain text. */
struct plain_ranges {
	const struct text_range* range;
	size_t n;
};
/* Whether any of [start, end) is plain. */
bool plain_ranges_touch(const struct plain_ranges*, size_t start, size_t end);

struct added_match {
	size_t start, end; /* its bytes in the text, stripped white space included */
	const struct added_token* token;
};

void added_tokens_start(struct added_tokens*);
void added_tokens_free(struct added_tokens*);
/* A content that is added twice keeps its first id. Errors: empty content, no memory. */
bool added_tokens_add(struct added_tokens*, const char* content, size_t size, struct added_token,
                      struct error*);
/* The trie's node after one more byte; node -1 is the start. -1: no content continues so. */
int32_t added_tokens_step(const struct added_tokens*, int32_t node, uint8_t byte);
/* The first match at or after `from`, the longest at its place. Special tokens that touch a plain range are
 * skipped. */
bool added_tokens_next(const struct added_tokens*, const char* text, size_t size, size_t from,
                       const struct plain_ranges* plain, struct added_match*);
