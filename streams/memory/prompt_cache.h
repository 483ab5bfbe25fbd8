/* Prefixes of prompts on disk: the KV cache of a long system prompt survives a restart, bit for bit.
 *
 * One file holds a page of PAGE_SLOTS tokens. Its name is a hash over everything that its bits depend on
 * (program, model, backend, type of the cache), its tenant, and all tokens up to its end. So another tenant,
 * model or build has other names. A page is written when a second request of its tenant has found it in
 * memory; a text that comes once is never written. If the model has recurrent blocks, a file of the same form
 * holds their state behind the last page of a prefix that a second request has gone on from, and the page's
 * name gives the file's; pages are written and read only down to such a state. A thread writes each file
 * whole or not at all (to a temporary name, synced, renamed). Above the size limit the longest unused files
 * are removed. Files are read when a job gets its slot, between iterations and never in a round, up to 16 MiB
 * or a tenth of a second, and checked before use. A damaged file is logged and removed. One process uses a
 * folder. */
#pragma once

#include "kernels/backend.h"

struct prompt_cache;

enum { PROMPT_CACHE_NAME = 65 };

struct prompt_cache_counts {
	int64_t found, kept, damaged; /* files (pages and states) that were read, written, and refused */
	int64_t bytes;                /* of the files there are */
};

/* A name for an API key that stays the same over restarts and does not reveal it: its SHA-256, in hex. */
void prompt_cache_tenant(const char* key, char name[PROMPT_CACHE_NAME]);
/* folder: made if missing, for its user alone; bytes: the limit of all files together; model: its
 * fingerprint; tenant: a name of each that stays the same over restarts, and must outlive the cache. NULL
 * with the error set. */
struct prompt_cache* prompt_cache_open(const char* folder, int64_t bytes, const char* model,
                                       const char (*tenant)[PROMPT_CACHE_NAME], struct error*);
/* Writes what waits. NULL is allowed. */
void prompt_cache_close(struct prompt_cache*);
/* Fills the KV cache with a prefix of these tokens, as far as it, other caches or files hold it. The backend
 * has to save and restore pages. Nothing may be pending. tenant: an index of prompt_cache_open's. */
void prompt_cache_bring(struct prompt_cache*, struct cache*, int tenant, const int32_t* token, int n);
/* Copies the KV cache's leading pages that have no file, and queues them to be written; token (n): the
 * cache's tokens. */
void prompt_cache_keep(struct prompt_cache*, struct cache*, int tenant, const int32_t* token, int n);
/* From any thread. */
void prompt_cache_count(struct prompt_cache*, struct prompt_cache_counts*);
