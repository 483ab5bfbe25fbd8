/* Earlier texts kept in the store, where that was asked for, so that retrieval knows them after a restart and
 * in every replica.
 *
 * A thread of its own, with a connection of its own, writes what was generated here and reads what others
 * wrote; whoever serves waits for neither. What does not fit the queue, or waits for a database that is away
 * when the process ends, is left out: texts only help to draft. Tenants are numbered by the caller; each has
 * his own texts, and is told no other's. */
#ifndef SWIFTLET_STREAMS_MEMORY_TEXTS_H
#define SWIFTLET_STREAMS_MEMORY_TEXTS_H

#include "streams/memory/store.h"

enum { TEXTS_NAME = 65 };

struct texts;
struct texts_options {
	struct store_model model;
	int vocab;
	int capacity; /* tokens that are kept of each tenant's texts */
	int n_tenants;
	const char (*tenant)[TEXTS_NAME]; /* (n_tenants) */
};
/* What names an API key in the store: SHA-256 of it, in hex. */
void texts_tenant(const char* key, char name[TEXTS_NAME]);
/* NULL with the error set. A database that is away is waited for. */
struct texts* texts_open(const char* path, const struct texts_options*, struct error*);
void texts_close(struct texts*); /* NULL is nothing */
/* From now on this tenant's texts are read: those that are there, and others' as they come. */
void texts_want(struct texts*, int tenant);
void texts_put(struct texts*, int tenant, const int32_t* token, int n);
/* Hands over one text that was read. False when there is none. */
bool texts_take(struct texts*, void (*give)(void* user, int tenant, const int32_t* token, int n), void* user);

#endif
