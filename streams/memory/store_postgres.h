/* The store in PostgreSQL: one connection, in which nothing waits longer than the store's patience.
 *
 * A connection that was lost is made again by the next transaction. Every transaction that wrote tells the
 * others (NOTIFY). A write may be stamped with its writer and number: where the answer to a commit was lost,
 * the same write, sent again, is found to be there already. */
#ifndef SWIFTLET_STREAMS_MEMORY_STORE_POSTGRES_H
#define SWIFTLET_STREAMS_MEMORY_STORE_POSTGRES_H

#include "streams/memory/store.h"

bool postgres_is(const char* path); /* "postgresql://…" or "postgres://…" */
struct store* postgres_open(const char* path, enum store_mode, struct error*);
/* The same, not connected yet; NULL when the path is no address. */
struct store* postgres_prepare(const char* path, enum store_mode, struct error*);
/* Does nothing where there is a connection. */
bool postgres_connect(struct store*, struct error*);
bool postgres_connected(const struct store*);
/* The database was reached and is not one to be used: of another program, or of a newer version. */
bool postgres_unfit(const struct store*);
/* Since the last stamp a statement has failed for what it held, not for the database's state. */
bool postgres_blames_data(const struct store*);
/* From the next connection on, others' writes are heard of. */
void postgres_listen(struct store*);
/* Waits for news, or until `wake` can be read: true when others have written since the last time. */
bool postgres_news(struct store*, int wake, int milliseconds);
/* The next transactions are write `number` of this writer; 0: not stamped. */
void postgres_stamp(struct store*, const char* writer, int64_t number);
/* The last transaction was not begun: its write is there already. */
bool postgres_has_it(const struct store*);

#endif
