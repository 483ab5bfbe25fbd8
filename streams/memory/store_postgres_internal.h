/* What the files of the PostgreSQL store share. */
#ifndef SWIFTLET_STREAMS_MEMORY_STORE_POSTGRES_INTERNAL_H
#define SWIFTLET_STREAMS_MEMORY_STORE_POSTGRES_INTERNAL_H

#include <libpq-fe.h>
#include <stdatomic.h>

#include "streams/memory/store_internal.h"
#include "streams/memory/store_postgres.h"

struct postgres {
	PGconn* connection; /* NULL: none */
	char* address;
	const char* tls; /* the sslmode that it gets in place of its own; NULL: none */
	enum store_mode mode;
	_Atomic int patience; /* milliseconds; an outbox's owner sets it while the thread works */
	bool in_transaction;  /* as the caller sees it; the connection may be lost meanwhile */
	bool unfit, blames_data, listens, has_it;
	char writer[40];
	int64_t number;
};

struct postgres_values { /* (n) parameters of a statement */
	int n;
	const Oid* type;
	const char* const* value;
	const int *length, *format;
};

/* The last result of the statements, which the caller clears; NULL with the error set. */
PGresult* postgres_exchange(struct store*, const char* sql, const struct postgres_values*, const char* doing,
                            struct error*);
extern const struct sql_driver postgres_driver;

#endif
