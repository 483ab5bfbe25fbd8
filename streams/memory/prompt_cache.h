/* Beginnings of prompts on disk: a long system prompt survives a restart, its keys and values the same bits.
 *
 * One file holds a page of PAGE_SLOTS tokens. Its name is a hash over what its bits depend on (program,
 * model, backend, type of the cache), whose it is, and all tokens up to its end: another tenant, model or
 * build asks for other names. Kept is what a second request of its tenant has found in memory; texts that
 * come once are never written. A thread writes, each file whole or not at all (written aside, synced,
 * renamed); above the size the longest unused go. Files are read when a request sits down, between turns,
 * never in a round, 16 MiB or for a tenth of a second, and checked before use: one that is damaged is told of
 * and removed. One process a folder. */
#ifndef SWIFTLET_STREAMS_MEMORY_PROMPT_CACHE_H
#define SWIFTLET_STREAMS_MEMORY_PROMPT_CACHE_H

#include "kernels/backend.h"

struct prompt_cache;

enum { PROMPT_CACHE_NAME = 65 };

struct prompt_cache_counts {
	int64_t found, kept, damaged; /* pages that were read, written, and refused */
	int64_t bytes;                /* of the files there are */
};

/* What names an API key from one start to the next without giving it away: SHA-256 of it, in hex. */
void prompt_cache_tenant(const char* key, char name[PROMPT_CACHE_NAME]);
/* folder: made where it is missing, for its user alone; bytes: of all files at most; model: its fingerprint;
 * tenant: what names each from one start to the next, which outlives the cache. NULL with the error set. */
struct prompt_cache* prompt_cache_open(const char* folder, int64_t bytes, const char* model,
                                       const char (*tenant)[PROMPT_CACHE_NAME], struct error*);
/* Writes what waits. NULL is nothing. */
void prompt_cache_close(struct prompt_cache*);
/* Makes the cache, whose backend saves and restores pages, hold the beginning of these tokens, as far as it,
 * others or files have it. Nothing may be pending. tenant: an index of prompt_cache_open's. */
void prompt_cache_bring(struct prompt_cache*, struct cache*, int tenant, const int32_t* token, int n);
/* Takes a copy of the cache's leading pages that no file has, to be written; token (n): what the cache holds.
 */
void prompt_cache_keep(struct prompt_cache*, struct cache*, int tenant, const int32_t* token, int n);
/* From any thread. */
void prompt_cache_count(struct prompt_cache*, struct prompt_cache_counts*);

#endif
