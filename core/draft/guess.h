/* Drafts that cost no pass: prompt lookup, Jacobi's window, lookahead's window and pool.
 *
 * Each fills a tree below its root, and the latter two take what the verified rows said:
 *
 *   ngram      what followed the first earlier place where the text's last 3, 2 or 1 tokens stand (prompt
 *              lookup decoding, Saxena 2023)
 *   jacobi     a window of guesses, all positions at once; what the target says at a guess is the next guess
 *              for the position after it (Santilli et al. 2023)
 *   lookahead  a window of W columns and N - 1 levels of such guesses, whose columns are n-grams; a pool
 * keeps them by first token, and those that begin with the root are candidates (Fu et al. 2024). Each column
 * hangs below its predecessor's first level, so that the window is a tree. */
#ifndef SWIFTLET_CORE_DRAFT_GUESS_H
#define SWIFTLET_CORE_DRAFT_GUESS_H

#include "core/draft/verify.h"

enum guess_kind { GUESS_NGRAM, GUESS_JACOBI, GUESS_LOOKAHEAD };
enum { GUESS_LONGEST = 3, LOOKAHEAD_COLUMNS = 5, LOOKAHEAD_GRAM = 3, LOOKAHEAD_KEPT = 5 };

struct guess;

/* most: tokens of an n-gram's continuation, or of Jacobi's window; at most MAX_DRAFT. NULL on no memory. */
struct guess* guess_open(enum guess_kind, int most, int vocab);
void guess_close(struct guess*);
size_t guess_bytes(const struct guess*);
/* A text begins. text (n): what window and levels start as. */
void guess_begin(struct guess*, const int32_t* text, int n);
/* Adds rows below the tree's root, which is the text's last token; none deeper than `depth`. */
void guess_fill(struct guess*, const int32_t* text, int n, int depth, struct tree*);
/* The tree was verified; out (tree rows) holds WANT_TOKEN. */
void guess_see(struct guess*, const struct tree*, const struct verdict*, const struct result* out);

#endif
