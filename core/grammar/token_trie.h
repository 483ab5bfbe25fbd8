/* A vocabulary's tokens as bytes, in a trie laid out so that one walk meets each prefix once.
 *
 * Most tokens are *plain*: whole characters that stand for themselves in a JSON string (states_after_plain).
 * If a string takes any of them, all plain tokens below a node are allowed at once, and only the others
 * have to be walked. They have a trie of their own.
 *
 * Most of the plain tokens are *words*: letters, or characters beyond ASCII that are neither white space nor
 * punctuation, maybe after one space. Many patterns that treat plain characters differently treat all words
 * alike. */
#pragma once

#include "kernels/backend.h"

/* The nodes but the root, depth first. */
struct trie_node {
	int32_t token; /* the first that ends here, or -1 */
	int32_t past;  /* the node after all those below this one */
	uint8_t byte;
	uint8_t depth;      /* 1 below the root */
	uint8_t characters; /* to here; 0: the bytes to here are no whole plain characters */
};

/* A token of plain characters. */
struct plain_token {
	int32_t token;
	int32_t characters;
};

/* Words of ASCII's letters alone, and those with another character, each also after a space. */
enum word_kind {
	LETTERS,
	WORD,
	SPACED_LETTERS,
	SPACED_WORD,
	WORD_KINDS,
	SPACE_ALONE = WORD_KINDS,
	NOT_A_WORD
};

enum { TRIE_DEPTH = 255 }; /* longer tokens are left out */
enum { PLAIN_LENGTHS = 17 };

struct token_trie {
	int vocab, n;
	int longest;            /* bytes of a token, at most */
	struct trie_node* node; /* (n) */
	/* The plain tokens in the order of the nodes, and how many of them end before each node. */
	struct plain_token* plain; /* (plain_before[n]) */
	int32_t* plain_before;     /* (n + 1) */
	/* The trie of the other tokens, and how many of its nodes stand before each node of the whole one. */
	struct trie_node* other; /* (n_other) */
	int32_t* other_before;   /* (n + 1) */
	int n_other;
	/* Bits (vocab) of the plain tokens of at most 0, 1, 2 … characters. Longer ones are few and are listed.
	 */
	uint64_t* plain_bits;           /* (PLAIN_LENGTHS, words) */
	struct plain_token* plain_long; /* (n_plain_long) */
	int n_plain_long;
	/* Bits (vocab) of the words of each kind, and the trie of all tokens that are none. */
	uint64_t* word_bits;    /* (WORD_KINDS, words) */
	struct trie_node* rest; /* (n_rest) */
	int n_rest;
	size_t words;    /* of 64 bits, for the vocabulary */
	int32_t* same;   /* (vocab) the next token of the same bytes, or -1 */
	uint32_t* start; /* (vocab + 1) of each token's bytes */
	uint8_t* bytes;
};

/* piece(user, token, out, capacity) gives a token's bytes as they stand within a text and returns how many;
 * 0: the token is not text. NULL on no memory. Immutable: any thread may use it. */
struct token_trie* token_trie_open(int vocab,
                                   size_t (*piece)(void* user, int32_t token, char* out, size_t capacity),
                                   void* user);
void token_trie_free(struct token_trie*);
