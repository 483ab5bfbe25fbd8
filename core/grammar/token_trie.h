/* A vocabulary's tokens as bytes, in a trie laid out so that one walk meets each prefix once. */
#ifndef SWIFTLET_CORE_GRAMMAR_TOKEN_TRIE_H
#define SWIFTLET_CORE_GRAMMAR_TOKEN_TRIE_H

#include "kernels/backend.h"

/* The nodes but the root, depth first. */
struct trie_node {
	int32_t token; /* the first that ends here, or -1 */
	int32_t past;  /* the node after all those below this one */
	uint8_t byte;
	uint8_t depth; /* 1 below the root */
};

enum { TRIE_DEPTH = 255 }; /* longer tokens are left out */

struct token_trie {
	int vocab, n;
	struct trie_node* node; /* (n) */
	int32_t* same;          /* (vocab) the next token of the same bytes, or -1 */
	uint32_t* start;        /* (vocab + 1) of each token's bytes */
	uint8_t* bytes;
};

/* piece(user, token, out, capacity) gives a token's bytes as they stand within a text and returns how many;
 * 0: the token is not text. NULL on no memory. Immutable: any thread may use it. */
struct token_trie* token_trie_open(int vocab,
                                   size_t (*piece)(void* user, int32_t token, char* out, size_t capacity),
                                   void* user);
void token_trie_free(struct token_trie*);

#endif
