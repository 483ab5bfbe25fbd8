/* The store in PostgreSQL: one connection, on which no operation waits longer than the store's patience.
 *
 * The next transaction remakes a lost connection. Every transaction that wrote notifies the other processes
 * (NOTIFY). A write may be stamped with its writer and number. If the answer to its commit was lost, the same
 * write, sent again, is recognized. */
#pragma once

#include <stdatomic.h>

#include "streams/memory/store.h"

struct postgres {
	struct pg_conn* connection; /* NULL: none */
	char* address;
	const char* tls; /* the sslmode that replaces its own; NULL: none */
	enum store_mode mode;
	_Atomic int patience; /* milliseconds; read by the outbox's thread, set by another */
	bool in_transaction;  /* as the caller sees it; the connection may have been lost since */
	bool unfit;           /* the database was reached and cannot be used: it is another program's, or newer */
	bool listens;         /* notifications of other processes' writes arrive from the next connection on */
	char writer[40];
	int64_t number;   /* the next transactions belong to this write of the writer's; 0: not stamped */
	bool has_it;      /* the last one was not begun, because its write is already there */
	bool blames_data; /* a statement failed because of its data, not because of the database's state */
};

/* path: "postgresql://…" or "postgres://…". Does not connect yet. NULL when it is no address. */
struct store* postgres_prepare(const char* path, enum store_mode, struct error*);
/* Connects unless it is connected. */
bool postgres_connect(struct store*, struct error*);
/* Waits for notifications, or until `wake` can be read. True when others have written since the last call. */
bool postgres_news(struct postgres*, int wake, int milliseconds);
