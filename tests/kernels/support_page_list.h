/* Page lists, by any backend: what drafts with a list read, and what a list names. */
#pragma once

#include "kernels/backend.h"

enum { LIST_CONTEXT = 900, LIST_VOCAB = 96, LIST_ROWS = 5 };

struct cache* list_cache(struct backend*, enum dtype type);
void list_text(int32_t* token, int n, uint64_t seed);
/* Commits the text's tokens up to n, by exact passes of `rows` rows. */
void list_commit(struct cache*, const int32_t* token, int n, int rows, bool noted);
/* Logits (LIST_ROWS, LIST_VOCAB) of a small tree behind the text, by what its attention reads. */
void list_draft(struct cache*, const struct page_list*, float* logits);

/* A list that names all positions, though list_pages makes none that does: the same sums as without one. One
 * page fewer, the first one, and it is another result. n tokens. */
void check_whole_list(struct backend*, enum dtype type, int n, uint64_t seed);
/* In a model of one block a position's keys and values are its token's: what is not listed may be anything.
 */
void check_unlisted_pages(struct backend*, enum dtype type, int n, uint64_t seed);
/* Lists hold page 0 and the budget's pages, ascending, before the last whole one; none before anything was
 * noted, and none when all of the text is forgotten. page (3, 5): the list of 800 tokens, the last by passes
 * of `rows` rows, at most 32, in a model of three blocks. */
void check_lists(struct backend*, int rows, int32_t* page);
