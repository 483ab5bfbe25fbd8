/* The store in PostgreSQL: one connection, in which nothing waits longer than the store's patience.
 *
 * A connection that was lost is made again by the next transaction. Every transaction that wrote notifies
 * the others (NOTIFY). A write may be stamped with its writer and number: where the answer to a commit was
 * lost, the same write, sent again, is found to be there already. */
#ifndef SWIFTLET_STREAMS_MEMORY_STORE_POSTGRES_H
#define SWIFTLET_STREAMS_MEMORY_STORE_POSTGRES_H

#include <stdatomic.h>

#include "streams/memory/store.h"

struct postgres {
	struct pg_conn* connection; /* NULL: none */
	char* address;
	const char* tls; /* the sslmode that it gets in place of its own; NULL: none */
	enum store_mode mode;
	_Atomic int patience; /* milliseconds; the outbox's thread reads it, another sets it */
	bool in_transaction;  /* as the caller sees it; the connection may be lost meanwhile */
	bool unfit;   /* the database was reached and is not one to be used: another program's, or newer */
	bool listens; /* from the next connection on others' writes are heard of */
	char writer[40];
	int64_t number;   /* the next transactions are this write of the writer's; 0: not stamped */
	bool has_it;      /* the last one was not begun: its write is there already */
	bool blames_data; /* a statement has failed for what it held, not for the database's state */
};

/* path: "postgresql://…" or "postgres://…". Not connected yet; NULL when it is no address. */
struct store* postgres_prepare(const char* path, enum store_mode, struct error*);
/* Does nothing where there is a connection. */
bool postgres_connect(struct store*, struct error*);
/* Waits for news, or until `wake` can be read: true when others have written since the last time. */
bool postgres_news(struct postgres*, int wake, int milliseconds);

#endif
